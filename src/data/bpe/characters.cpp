#include "data/bpe/characters.h"

#include <algorithm>
#include <span>

#include "base/text/utf8.h"
#include "data/bpe/unicode_tables.h"

namespace lockstep::data::bpe {

Characters::Characters() : kinds_(0x110000, Kind::other) {
  const auto mark = [&](std::span<const PointRange> ranges, Kind kind) {
    for (const PointRange& range : ranges) std::fill(kinds_.begin() + range.first, kinds_.begin() + range.last + 1, kind);
  };
  mark(letters(), Kind::letter);
  mark(numbers(), Kind::number);
  mark(spaces(), Kind::space);
}

Character Characters::wide(std::string_view text, std::size_t at) const {
  const CodePoint point = code_point_at(text, at);
  return point.length == 0 ? Character{} : Character{kinds_[point.value], point.length};
}

}  // namespace lockstep::data::bpe
