#include "layout/pipeline/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/error.h"
#include "layout/range.h"

namespace lockstep::layout {

std::vector<std::int64_t> even_split(int stages, std::int64_t layers) {
  std::vector<std::int64_t> split;
  for (int stage = 0; stage < stages; ++stage) split.push_back(part_of(layers, stage, stages).count);
  return split;
}

// One block after the other goes where it leaves the least work: blocks are alike, so no exchange of two could better that.
std::vector<std::int64_t> balanced_split(const StageMap& map, std::int64_t layers, const PartCosts& costs) {
  ensure(layers >= map.stages(), "every stage has a block");
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<std::int64_t> split(index(map.stages()), 1);
  std::vector<double> of_rank(index(map.ranks())), of_stage(index(map.stages()), costs.block);
  of_stage.back() += costs.head;
  for (int stage = 0; stage < map.stages(); ++stage) of_rank[index(map.rank_of(stage))] += of_stage[index(stage)];
  for (std::int64_t left = layers - map.stages(); left > 0; --left) {
    const auto work = [&](int stage) { return std::tuple(of_rank[index(map.rank_of(stage))], of_stage[index(stage)]); };
    int least = 0;
    for (int stage = 1; stage < map.stages(); ++stage) {
      if (work(stage) < work(least)) least = stage;
    }
    ++split[index(least)];
    of_stage[index(least)] += costs.block;
    of_rank[index(map.rank_of(least))] += costs.block;
  }
  return split;
}

std::optional<std::vector<std::int64_t>> split_from(std::string_view text) {
  std::vector<std::int64_t> split;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::int64_t layers = 0;
    const char* const first = text.data();
    const auto [rest, error] = std::from_chars(first, first + end, layers);
    if (error != std::errc{} || rest != first + end || layers < 0) return std::nullopt;
    split.push_back(layers);
    if (end == text.size()) return split;
    text.remove_prefix(end + 1);
  }
}

std::string to_string(const std::vector<std::int64_t>& split) { return fmt::format("{}", fmt::join(split, ",")); }

}  // namespace lockstep::layout
