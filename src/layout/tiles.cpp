#include "layout/tiles.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/number_text.h"

namespace lockstep::layout {
namespace {

std::optional<int> tiles_each_way(std::string_view text) {
  const auto value = number_from<int>(text);
  return value && *value >= 1 ? value : std::nullopt;
}

}  // namespace

std::optional<Tiles> tiles_from(std::string_view text) {
  const std::size_t times = text.find('x');
  if (times == std::string_view::npos) return std::nullopt;
  const std::optional<int> in = tiles_each_way(text.substr(0, times)), out = tiles_each_way(text.substr(times + 1));
  if (!in || !out) return std::nullopt;
  return Tiles{.in = *in, .out = *out};
}

std::string to_string(const Tiles& tiles) { return fmt::format("{}x{}", tiles.in, tiles.out); }

std::vector<Range> tile_ranges(std::int64_t features, int tiles) {
  const std::int64_t blocks = div_up(features, tile_features);
  const int count = static_cast<int>(std::min<std::int64_t>(tiles, blocks));
  std::vector<Range> ranges;
  for (int i = 0; i < count; ++i) {
    const Range of_blocks = part_of(blocks, i, count);
    const std::int64_t first = of_blocks.first * tile_features;
    ranges.push_back({first, std::min(features, of_blocks.end() * tile_features) - first});
  }
  return ranges;
}

}  // namespace lockstep::layout
