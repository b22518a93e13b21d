#pragma once

// Where an axis has its ticks, and how they are labelled: multiples of 1, 2 or 5 times a power of ten, in few characters.

#include <limits>
#include <string>
#include <vector>

namespace lockstep {

/// What an axis shows.
struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  /// Widens the extent to `value`; one that is not finite changes nothing.
  void include(double value);
  /// Gives an extent that is empty or has one value some width.
  void settle();
  /// The place of a value in the extent: 0 at low, 1 at high.
  double part(double value) const { return (value - low) / (high - low); }
};

struct Tick {
  double value = 0;
  std::string text;  ///< "0.5", "-20", "320k", "2e-05"
};
/// At most `most` ticks (2 or more) within a settled extent. `whole`: the values are counts, and have no ticks between them.
std::vector<Tick> ticks_of(const Extent& extent, int most, bool whole = false);

}  // namespace lockstep
