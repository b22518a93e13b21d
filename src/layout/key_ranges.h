#pragma once

// Which part of the parameters each parameter server holds, and in which order parts travel. A unit is cut into ranges as data
// parallelism over the workers cuts it (range_of), so that sums of squares have the same order. A server holds whole ranges that
// are neighbours. A unit's first ranges lie on another server than those of the unit before, so that servers hold about as much.

#include <vector>

#include "layout/unit.h"

namespace lockstep::layout {

class KeyRanges {
 public:
  /// `order`: the order in which a worker is done with the units of a step. `tied`: the unit of a tied matrix, which is done
  /// last; its value is -1 where there is none.
  KeyRanges(const std::vector<Unit>& units, const std::vector<UnitIndex>& order, UnitIndex tied, int workers, int servers);

  int workers() const { return workers_; }
  int servers() const { return servers_; }
  /// Every unit, the tied one last.
  const std::vector<UnitIndex>& order() const { return order_; }
  UnitIndex tied() const { return tied_; }
  const std::vector<Unit>& units() const { return units_; }
  int unit_count() const { return static_cast<int>(units_.size()); }
  const Unit& unit(UnitIndex unit) const { return units_[static_cast<std::size_t>(unit.value)]; }

  /// Ranges [first, last) of the unit's workers() ranges that the server holds.
  struct Cells {
    int first, last;
  };
  Cells cells(UnitIndex unit, int server) const;
  /// Range `index` of the unit's workers() ranges.
  Range cell(UnitIndex unit, int index) const { return range_of(this->unit(unit), index, workers_); }
  /// The server's elements of a unit; may be empty.
  Range of(UnitIndex unit, int server) const;
  /// The server's elements of the tied matrix, without the unit's padding. Empty when there is no tied matrix.
  Range tied(int server) const;

 private:
  std::vector<Unit> units_;
  std::vector<UnitIndex> order_;
  UnitIndex tied_;
  int workers_, servers_;
};

}  // namespace lockstep::layout
