#include "planner/waves.h"

#include "base/checked.h"

namespace lockstep::planner {
std::int64_t tiles_of(std::int64_t m, std::int64_t n, const TileSize& tile) {
  return div_up(m, tile.rows) * div_up(n, tile.columns);
}

double tile_efficiency(std::int64_t m, std::int64_t n, const TileSize& tile) {
  return static_cast<double>(m) * static_cast<double>(n) /
         (static_cast<double>(tiles_of(m, n, tile)) * static_cast<double>(tile.rows * tile.columns));
}

std::int64_t waves(std::int64_t tiles, std::int64_t units) { return div_up(tiles, units); }

double wave_efficiency(std::int64_t tiles, std::int64_t units) {
  return static_cast<double>(tiles) / static_cast<double>(waves(tiles, units) * units);
}

double wave_speedup(std::int64_t tiles, std::int64_t from, std::int64_t to) {
  return static_cast<double>(waves(tiles, from)) / static_cast<double>(waves(tiles, to));
}

}  // namespace lockstep::planner
