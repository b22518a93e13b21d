#include "data/bpe/characters.h"

#include "data/pattern/character_set.h"

namespace lockstep::data::bpe {

Characters::Characters() : kinds_(0x110000, Kind::other) {
  const pattern::CharacterSet letters = pattern::category("L"), numbers = pattern::category("N"), spaces = pattern::spaces();
  for (char32_t point = 0; point < kinds_.size(); ++point) {
    if (letters.has(point)) kinds_[point] = Kind::letter;
    if (numbers.has(point)) kinds_[point] = Kind::number;
    if (spaces.has(point)) kinds_[point] = Kind::space;
  }
}

Character Characters::wide(std::string_view text, std::size_t at) const {
  const CodePoint point = code_point_at(text, at);
  return point.length == 0 ? Character{} : Character{kinds_[point.value], point.length};
}

}  // namespace lockstep::data::bpe
