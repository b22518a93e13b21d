#include "planner/waves.h"

namespace lockstep::planner {
namespace {

std::int64_t divided_up(std::int64_t things, std::int64_t each) { return (things + each - 1) / each; }

}  // namespace

std::int64_t tiles_of(std::int64_t m, std::int64_t n, const TileSize& tile) {
  return divided_up(m, tile.rows) * divided_up(n, tile.columns);
}

double tile_efficiency(std::int64_t m, std::int64_t n, const TileSize& tile) {
  return static_cast<double>(m) * static_cast<double>(n) /
         (static_cast<double>(tiles_of(m, n, tile)) * static_cast<double>(tile.rows * tile.columns));
}

std::int64_t waves(std::int64_t tiles, std::int64_t units) { return divided_up(tiles, units); }

double wave_efficiency(std::int64_t tiles, std::int64_t units) {
  return static_cast<double>(tiles) / static_cast<double>(waves(tiles, units) * units);
}

double wave_speedup(std::int64_t tiles, std::int64_t from, std::int64_t to) {
  return static_cast<double>(waves(tiles, from)) / static_cast<double>(waves(tiles, to));
}

}  // namespace lockstep::planner
