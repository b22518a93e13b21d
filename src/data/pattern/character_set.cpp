#include "data/pattern/character_set.h"

#include <utility>

#include "data/pattern/general_categories.h"

namespace lockstep::data::pattern {

CodePoint character_before(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && is_continuation(text[begin])) --begin;
  const CodePoint point = character_at(text, begin);
  return begin + point.length == at ? point : CodePoint{no_character, 1};
}

void CharacterSet::add(char32_t first, char32_t last) {
  for (char32_t point = first; point <= last; ++point) bits_[point / 64] |= std::uint64_t{1} << (point % 64);
}

bool CharacterSet::add_category(std::string_view name) {
  bool known = false;
  char32_t first = 0, length = 0;
  for (const char byte : category_runs()) {
    if (byte >= '?') {
      length = 64 * length + static_cast<char32_t>(byte - '?');
      continue;
    }
    if (category_names.substr(2 * static_cast<std::size_t>(byte - '!'), 2).starts_with(name)) {
      add(first, first + length - 1);
      known = !name.empty();
    }
    first += std::exchange(length, 0);
  }
  return known;
}

void CharacterSet::invert() {
  for (std::uint64_t& bits : bits_) bits = ~bits;
}

CharacterSet& CharacterSet::operator|=(const CharacterSet& other) {
  for (std::size_t i = 0; i < bits_.size(); ++i) bits_[i] |= other.bits_[i];
  return *this;
}

CharacterSet& CharacterSet::operator&=(const CharacterSet& other) {
  for (std::size_t i = 0; i < bits_.size(); ++i) bits_[i] &= other.bits_[i];
  return *this;
}

CharacterSet category(std::string_view name) {
  CharacterSet set;
  set.add_category(name);
  return set;
}

CharacterSet spaces() {
  CharacterSet set = category("Z");
  set.add('\t', '\r');
  set.add(0x85, 0x85);
  return set;
}

CharacterSet word_characters() {
  CharacterSet set;
  for (const std::string_view category : {"L", "M", "Nd", "Nl", "Pc"}) set.add_category(category);
  set.add(0x200C, 0x200D);  // joiners
  set.add(0x24B6, 0x24E9);  // symbols that are alphabetic
  for (const char32_t first : {0x1F130, 0x1F150, 0x1F170}) set.add(first, first + 25);
  return set;
}

bool add_other_case(CharacterSet& set) {
  for (char32_t c = 0x80; c < no_character; ++c) {
    if (set.has(c)) return false;
  }
  for (char32_t upper = 'A'; upper <= 'Z'; ++upper) {
    const char32_t lower = upper ^ 0x20U;
    if (!set.has(upper) && !set.has(lower)) continue;
    set.add(upper, upper);
    set.add(lower, lower);
    if (upper == 'S') set.add(0x17F, 0x17F);
    if (upper == 'K') set.add(0x212A, 0x212A);
  }
  return true;
}

CharacterSet oniguruma_words(bool bracketed) {
  CharacterSet set, joiners;
  for (const char32_t numeric : {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}) {
    if (!bracketed) set.add(numeric, numeric);
  }
  joiners.add(0x200C, 0x200D);
  joiners.invert();
  set |= word_characters();
  return set &= joiners;
}

}  // namespace lockstep::data::pattern
