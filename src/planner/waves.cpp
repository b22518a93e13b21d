#include "planner/waves.h"

#include <array>

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

Fill best_fill(std::int64_t m, std::int64_t n, std::int64_t batch, std::int64_t units) {
  constexpr std::array<TileSize, 3> sizes{{{256, 128}, {128, 256}, {128, 128}}};
  Fill best{.tile = {}, .tiles = 0, .tile_efficiency = 0, .wave_efficiency = 0};
  for (const TileSize& size : sizes) {
    const std::int64_t tiles = tiles_of(m, n, size) * batch;
    const Fill fill{size, tiles, tile_efficiency(m, n, size), wave_efficiency(tiles, units)};
    if (fill.total() > best.total()) best = fill;
  }
  return best;
}

}  // namespace lockstep::planner
