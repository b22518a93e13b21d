#include "data/chat/taught_tokens.h"

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::data {
namespace {

// Finds the tokens of a text at which its bytes stand, from left to right.
class TokenPlaces {
 public:
  TokenPlaces(const Tokenizer& tokenizer, std::string_view text, std::span<const std::int32_t> ids)
      : tokenizer_(tokenizer), text_(text), ids_(ids), part_(tokenizer.room(text.size())) {}

  /// How many tokens begin before a byte.
  std::size_t before(std::size_t byte) {
    // Mostly the text between two places has the same tokens by itself.
    const std::span<const std::int32_t> between = encoded(text_.substr(byte_, byte - byte_), byte_ > 0);
    const bool same =
        exact_ && between.size() <= ids_.size() - token_ && std::ranges::equal(between, ids_.subspan(token_, between.size()));
    token_ = same ? token_ + between.size() : before_by_beginning(byte);
    byte_ = byte;
    return token_;
  }
  /// Whether a token begins at the last place, or the text ends there.
  bool exact() const { return exact_; }

 private:
  std::span<const std::int32_t> encoded(std::string_view text, bool goes_on) {
    return std::span(part_).first(tokenizer_.encode(text, part_, unknown_, goes_on));
  }

  // Else the tokens of all that stands before the place tell: they differ from the text's at the end only.
  std::size_t before_by_beginning(std::size_t byte) {
    const std::span<const std::int32_t> beginning = encoded(text_.substr(0, byte), false);
    const auto differ = std::ranges::mismatch(beginning, ids_);
    std::size_t rest = 0;  // bytes of the beginning that other tokens of the text have
    for (auto id = differ.in1; id != beginning.end(); ++id) rest += tokenizer_.bytes(*id).size();
    auto token = static_cast<std::size_t>(differ.in2 - ids_.begin());
    std::size_t done = 0;
    for (; done < rest && token < ids_.size(); ++token) done += tokenizer_.bytes(ids_[token]).size();
    exact_ = done == rest;
    return token;
  }

  const Tokenizer& tokenizer_;
  std::string_view text_;
  std::span<const std::int32_t> ids_;
  std::vector<std::int32_t> part_;
  std::string unknown_;
  std::size_t byte_ = 0, token_ = 0;  // the last place
  bool exact_ = true;
};

}  // namespace

void mark_taught(const Tokenizer& tokenizer, std::string_view text, std::span<const Taught> taught,
                 std::span<const std::int32_t> ids, std::span<std::uint8_t> mask) {
  std::ranges::fill(mask, std::uint8_t{0});
  TokenPlaces places(tokenizer, text, ids);
  for (const Taught& part : taught) {
    std::size_t begin = places.before(part.begin);
    if (!places.exact()) --begin;
    const std::size_t end = places.before(part.end);
    for (std::size_t i = begin; i < end; ++i) mask[i] = 1;
  }
}

}  // namespace lockstep::data
