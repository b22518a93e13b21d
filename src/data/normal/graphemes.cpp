#include "data/normal/graphemes.h"

#include <algorithm>

#include "data/normal/normal_runs.h"
#include "data/pattern/character_set.h"

namespace lockstep::data::normal {
namespace {

// In the order of scripts/make-unicode-tables (BREAKS); syllables of Hangul are told by their number.
enum Kind : std::uint8_t {
  other,
  cr,
  lf,
  control,
  extend,
  joiner,
  regional,
  prepend,
  spacing,
  lead,
  vowel,
  trail,
  pictograph,
  lead_vowel,
  syllable,
  invalid
};

/// The facts of a cluster that decide whether it goes on.
struct Begun {
  Kind last;
  int regionals = 0;      // in a row, at its end
  bool pictured = false;  // a pictograph, and what extends it
};

bool goes_on(const Begun& begun, Kind next) {
  const Kind last = begun.last;
  const auto ends = [](Kind kind) { return kind == cr || kind == lf || kind == control || kind == invalid; };
  if (last == cr && next == lf) return true;
  if (ends(last) || ends(next)) return false;
  if (last == lead && (next == lead || next == vowel || next == lead_vowel || next == syllable)) return true;
  if ((last == lead_vowel || last == vowel) && (next == vowel || next == trail)) return true;
  if ((last == syllable || last == trail) && next == trail) return true;
  if (next == extend || next == joiner || next == spacing || last == prepend) return true;
  if (begun.pictured && last == joiner && next == pictograph) return true;
  return last == regional && next == regional && begun.regionals % 2 == 1;
}

}  // namespace

Graphemes::Graphemes() {
  kinds_.reserve(pattern::no_character + 1);
  for_runs(grapheme_runs(),
           [&](char32_t length, int kind) { kinds_.insert(kinds_.end(), length, static_cast<std::uint8_t>(kind)); });
  for (char32_t c = 0xAC00; c < 0xD7A4; ++c) kinds_[c] = (c - 0xAC00) % 28 == 0 ? lead_vowel : syllable;
  kinds_.push_back(invalid);
}

std::size_t Graphemes::end(std::string_view text, std::size_t at) const {
  const auto take = [&] {
    const CodePoint point = pattern::character_at(text, at);
    at += point.length;
    return static_cast<Kind>(kinds_[point.value]);
  };
  Begun begun{take()};
  begun.regionals = begun.last == regional ? 1 : 0;
  begun.pictured = begun.last == pictograph;
  while (at < text.size()) {
    const std::size_t before = at;
    const Kind next = take();
    if (!goes_on(begun, next)) return before;
    begun.regionals = next == regional ? begun.regionals + 1 : 0;
    begun.pictured = next == pictograph || (begun.pictured && (next == extend || next == joiner));
    begun.last = next;
  }
  return at;
}

}  // namespace lockstep::data::normal
