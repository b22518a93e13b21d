#pragma once

// Which part of a kind of state a rank has, where the ranks with the same parameters divide it evenly (ZeRO: Rajbhandari et al.
// 2020). Also which part the rank answers for: one of the ranks that have an element does.

#include "layout/mesh.h"
#include "layout/unit.h"

namespace lockstep::layout {

/// Each unit is cut into `parts` ranges, for parts * copies ranks. Rank r has range r % parts. So neighbours have neighbouring
/// ranges, and `copies` ranks have the same one.
struct StateCut {
  int parts = 1, copies = 1;
  int replica = 0;  ///< this rank's number among the ranks with the same parameters

  bool whole() const { return parts == 1; }
  /// What the rank has of a unit.
  Range held(const Unit& unit) const { return range_of(unit, replica % parts, parts); }
  /// The share that a rank answers for, of parts * copies even shares of a unit. It lies within what the rank has.
  int share_of(int other) const { return other % parts * copies + other / parts; }
  Range share(const Unit& unit, int number) const { return range_of(unit, number, parts * copies); }
  Range own(const Unit& unit) const { return share(unit, share_of(replica)); }
};

/// What the rank at `at` has of state that is cut over `over`.
StateCut state_cut(const ParallelPlan& plan, const Coordinates& at, CutOver over);

}  // namespace lockstep::layout
