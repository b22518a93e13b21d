#pragma once

// How well a product fills a device that computes its result in tiles, one a unit (SM) at a time. Tiles may have rows and columns
// outside the result. A last wave may have fewer tiles than there are units.

#include <cstdint>

namespace lockstep::planner {

struct TileSize {
  std::int64_t rows = 128, columns = 256;
};

/// The number of tiles of a result of m x n.
std::int64_t tiles_of(std::int64_t m, std::int64_t n, const TileSize& tile);
/// The share of all tiles' elements that lie in the result.
double tile_efficiency(std::int64_t m, std::int64_t n, const TileSize& tile);

std::int64_t waves(std::int64_t tiles, std::int64_t units);
/// The share of all waves' places that have a tile.
double wave_efficiency(std::int64_t tiles, std::int64_t units);
/// How many times faster `to` units are than `from`.
double wave_speedup(std::int64_t tiles, std::int64_t from, std::int64_t to);

struct Fill {
  TileSize tile;
  std::int64_t tiles = 0;
  double tile_efficiency = 1, wave_efficiency = 1;
  double total() const { return tile_efficiency * wave_efficiency; }
};
/// How `batch` products with results of m x n fill `units`. The tile is the best of the usual sizes: 256 x 128, 128 x 256 and
/// 128 x 128.
Fill best_fill(std::int64_t m, std::int64_t n, std::int64_t batch, std::int64_t units);

}  // namespace lockstep::planner
