#pragma once

// Memory-centric tiling (Rajbhandari et al. 2021, section 5.1.3): the matrix of a large linear layer in rectangles, of which one
// is leased after the other, so that no lease needs room for all of it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/range.h"

namespace lockstep::layout {

/// Products add in blocks of so many features (docs/numerics.md, section 3.1): a sum that is cut at multiples of them has the
/// same additions.
inline constexpr std::int64_t tile_features = 256;

struct Tiles {
  int in = 1, out = 1;           ///< of a layer's in-features and out-features
  std::int64_t larger_than = 0;  ///< bytes: smaller matrices, and those of so many, stay whole
  bool cut() const { return in > 1 || out > 1; }
  friend bool operator==(const Tiles&, const Tiles&) = default;
};

/// "1x4": in-features, out-features; nothing for another text, or where one is below 1.
std::optional<Tiles> tiles_from(std::string_view text);
std::string to_string(const Tiles& tiles);

/// Features [0, features) in `tiles` ranges, as even as cuts at multiples of tile_features can be; where there are fewer such
/// multiples, in as many ranges as there are.
std::vector<Range> tile_ranges(std::int64_t features, int tiles);

}  // namespace lockstep::layout
