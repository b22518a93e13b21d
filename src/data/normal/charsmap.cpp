#include "data/normal/charsmap.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/pattern/character_set.h"

namespace lockstep::data::normal {
namespace {

// Bits of a unit (darts-clone: include/darts.h, DoubleArrayUnit).
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1U) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFU; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FFU; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200U) >> 6); }

constexpr std::size_t shortest_long_cluster = 6;  // bytes

[[noreturn]] void refuse(const char* reason) {
  throw UserError(reason, "take the tokenizer.json from where the model was published");
}

std::string from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) refuse("its map of characters is not in base 64");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFFU);
  }
  return bytes;
}

std::uint32_t unit_at(std::string_view bytes, std::size_t at) {
  std::uint32_t unit = 0;
  for (std::size_t i = 4; i-- > 0;) unit = unit << 8 | static_cast<unsigned char>(bytes[at + i]);
  return unit;
}

}  // namespace

Charsmap::Charsmap(std::string_view base64) {
  const std::string bytes = from_base64(base64);
  const std::size_t trie = bytes.size() < 4 ? 0 : unit_at(bytes, 0);
  if (trie == 0 || trie % 4 != 0 || trie > bytes.size() - 4) refuse("its map of characters is cut off");
  for (std::size_t at = 0; at < trie; at += 4) units_.push_back(unit_at(bytes, 4 + at));
  texts_ = bytes.substr(4 + trie);
  texts_ += '\0';
  measure();
  for (std::size_t c = 0; c < stays_.size(); ++c) {
    const char character = static_cast<char>(c);
    stays_[c] = c != '\r' && !replacement({&character, 1});
  }
}

Charsmap::Node Charsmap::root() const { return {offset_of(units_.front())}; }

std::optional<Charsmap::Node> Charsmap::behind(const Node& node, char byte) const {
  const auto label = static_cast<unsigned char>(byte);
  const std::size_t at = node.at ^ label;
  if (label == 0 || at >= units_.size() || label_of(units_[at]) != label) return std::nullopt;
  return Node{at ^ offset_of(units_[at]), has_leaf(units_[at])};
}

std::string_view Charsmap::text_of(const Node& node) const {
  const std::size_t first = node.at < units_.size() ? value_of(units_[node.at]) : texts_.size();
  if (first >= texts_.size()) refuse("its map of characters leads nowhere");
  return std::string_view(texts_).substr(first, texts_.find('\0', first) - first);
}

// Texts with the same end share its nodes, so each is looked at once, where it is least deep.
void Charsmap::measure() {
  std::vector<bool> seen(units_.size());
  std::vector<Node> level{root()}, next;
  for (std::size_t length = 1; !level.empty(); ++length, level = std::exchange(next, {})) {
    for (const Node& node : level) {
      for (int byte = 1; byte < 256; ++byte) {
        const auto found = behind(node, static_cast<char>(byte));
        if (!found || (found->at < seen.size() && seen[found->at])) continue;
        if (found->ends) growth_ = std::max(growth_, (text_of(*found).size() + length - 1) / length);
        if (found->at >= seen.size()) continue;
        seen[found->at] = true;
        next.push_back(*found);
      }
    }
  }
}

// The shortest known text with which this one begins counts.
std::optional<std::string_view> Charsmap::replacement(std::string_view character) const {
  std::optional<Node> node = root();
  for (const char byte : character) {
    node = behind(*node, byte);
    if (!node) return std::nullopt;
    if (node->ends) return text_of(*node);
  }
  return std::nullopt;
}

bool Charsmap::goes_on(std::string_view character) const {
  std::optional<Node> node = root();
  for (const char byte : character) {
    node = behind(*node, byte);
    if (!node) return false;
  }
  for (int byte = 1; byte < 256; ++byte) {
    if (behind(*node, static_cast<char>(byte))) return true;
  }
  return false;
}

template <class Replace>
void Charsmap::each(std::string_view text, const bool& done, const Replace& replace) const {
  const auto stays = [&](std::size_t at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    return byte < 0x80 && stays_[byte];
  };
  for (std::size_t at = 0, end = 0; at < text.size() && !done; at = end) {
    end = at + 1;
    const bool alone = end == text.size() || static_cast<unsigned char>(text[end]) < 0x80;  // no such character joins another
    if (alone && stays(at)) continue;
    end = graphemes_.end(text, at);
    if (end - at < shortest_long_cluster && replace(at, end - at)) continue;
    for (std::size_t length = 0; at < end; at += length) {
      length = pattern::character_at(text, at).length;
      replace(at, length);
    }
  }
}

std::string_view Charsmap::operator()(std::string_view text, std::string& memory) const {
  memory.clear();
  std::size_t kept = 0;  // what lies before is in `memory`
  each(text, false, [&](std::size_t at, std::size_t length) {
    const auto by = replacement(text.substr(at, length));
    if (!by) return false;
    memory.append(text.substr(kept, at - kept)).append(*by);
    kept = at + length;
    return true;
  });
  return kept == 0 ? text : std::string_view(memory.append(text.substr(kept)));
}

// The steps of tokenizers/src/normalizers/precompiled.rs and of NormalizedString::transform_range. Each character of the result
// takes one of the text's, or as a new one none. One before removed characters takes these, too; before the first there is none
// that could.
std::size_t Charsmap::front(std::string_view text, std::size_t bytes) const {
  std::size_t result = 0, taken = 0, kept = 0;
  bool done = false;
  struct {
    std::size_t size = 0;  // 0: there is none yet
    std::ptrdiff_t takes = 1;
  } last;
  const auto settle = [&] {
    done = done || (last.takes > 0 ? taken >= bytes : taken > bytes);
    if (!done) result += last.size;
    for (; last.size > 0 && last.takes > 0 && taken < text.size(); --last.takes)
      taken += pattern::character_at(text, taken).length;
  };
  const auto put = [&](std::size_t size, bool is_new) {
    settle();
    last = {size, is_new ? 0 : 1};
  };
  const auto keep = [&](std::size_t end) {
    for (; kept < end && !done; kept += last.size) put(pattern::character_at(text, kept).length, false);
  };
  each(text, done, [&](std::size_t at, std::size_t length) {
    const auto by = replacement(text.substr(at, length));
    if (!by) return false;
    keep(at);
    std::ptrdiff_t more = 0;  // characters than there were
    for (std::size_t i = 0; i < length; i += pattern::character_at(text, at + i).length) --more;
    for (std::size_t i = 0, size = 0; i < by->size(); i += size, ++more) {
      size = pattern::character_at(*by, i).length;
      put(size, more >= 0);
    }
    last.takes -= std::min<std::ptrdiff_t>(more, 0);
    kept = at + length;
    return true;
  });
  keep(text.size());
  settle();
  return result;
}

}  // namespace lockstep::data::normal
