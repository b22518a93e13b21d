#include "data/text/scan.h"

#include <algorithm>
#include <cstring>

#include "base/text/utf8.h"

namespace lockstep::data {

TextScan::Result TextScan::add(std::string_view text) {
  Result result;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t word = 0;
    if (text.size() - at >= sizeof(word)) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080U) == 0) {  // ASCII: most text
        for (std::size_t i = 0; i < sizeof(word); ++i) seen_[static_cast<unsigned char>(text[at + i])] = 1;
        at += sizeof(word);
        result.characters += sizeof(word);
        continue;
      }
    }
    const CodePoint point = code_point_at(text, at);
    if (point.length == 0) {
      result.invalid_at = at;
      return result;
    }
    seen_[point.value] = 1;
    at += point.length;
    ++result.characters;
  }
  return result;
}

void TextScan::merge(const TextScan& other) {
  for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i] |= other.seen_[i];
}

std::string TextScan::characters() const {
  std::string text;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    if (seen_[i] != 0) append_utf8(text, static_cast<char32_t>(i));
  }
  return text;
}

std::int64_t TextScan::distinct() const { return std::count(seen_.begin(), seen_.end(), std::uint8_t{1}); }

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); });
}

std::size_t character_offset(std::string_view text, std::int64_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!is_continuation(text[at]) && index-- == 0) break;
  }
  return at;
}

}  // namespace lockstep::data
