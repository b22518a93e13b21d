#pragma once

// How well a product fills a device that computes its result in tiles, one a unit (SM) at a time: rows and columns that no tile
// fills, and a last wave of tiles that not all units have one of.

#include <cstdint>

namespace lockstep::planner {

struct TileSize {
  std::int64_t rows = 128, columns = 256;
};

/// Tiles of a result of m x n.
std::int64_t tiles_of(std::int64_t m, std::int64_t n, const TileSize& tile);
/// The part of all tiles' elements that the result has.
double tile_efficiency(std::int64_t m, std::int64_t n, const TileSize& tile);

std::int64_t waves(std::int64_t tiles, std::int64_t units);
/// The part of all waves' places that have a tile.
double wave_efficiency(std::int64_t tiles, std::int64_t units);
/// How many times faster `to` units are than `from`.
double wave_speedup(std::int64_t tiles, std::int64_t from, std::int64_t to);

}  // namespace lockstep::planner
