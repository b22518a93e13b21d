#pragma once

// Memory-centric tiling (Rajbhandari et al. 2021, section 5.1.3). The matrix of a large linear layer is divided into rectangles.
// They are leased one after the other, so that no lease needs room for the whole matrix.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/range.h"

namespace lockstep::layout {

/// Products add in blocks of so many features (docs/numerics.md, section 3.1). A sum that is cut at multiples of them has the
/// same additions.
inline constexpr std::int64_t tile_features = 256;

struct Tiles {
  int in = 1, out = 1;           ///< the number of tiles of a layer's in-features and out-features
  std::int64_t larger_than = 0;  ///< bytes: matrices of so many or fewer stay whole
  bool cut() const { return in > 1 || out > 1; }
  friend bool operator==(const Tiles&, const Tiles&) = default;
};

/// Reads "1x4": tiles of in-features and of out-features. Returns nothing for another text, or where one is below 1.
std::optional<Tiles> tiles_from(std::string_view text);
std::string to_string(const Tiles& tiles);

/// Cuts features [0, features) into `tiles` ranges at multiples of tile_features, as evenly as can be. Where there are fewer than
/// `tiles` blocks of tile_features, each block is a range.
std::vector<Range> tile_ranges(std::int64_t features, int tiles);

}  // namespace lockstep::layout
