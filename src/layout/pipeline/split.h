#pragma once

// How many of a model's blocks each stage of a pipeline has.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/pipeline/stage_map.h"

namespace lockstep::layout {

/// What a micro-batch costs in a block, and in the head behind the last one: FLOPs, seconds or any other unit.
struct PartCosts {
  double block = 1, head = 0;
};

/// Blocks of each stage, as even as they can be.
std::vector<std::int64_t> even_split(int stages, std::int64_t layers);
/// Blocks of each stage, so that the rank with the most work has as little as can be. Then a rank's blocks are divided over its
/// stages in the same way. No stage is without a block. Throws BrokenRule for fewer layers than stages.
std::vector<std::int64_t> balanced_split(const StageMap& map, std::int64_t layers, const PartCosts& costs);

/// Reads "4,4,3,1". Returns nothing for another text.
std::optional<std::vector<std::int64_t>> split_from(std::string_view text);
std::string to_string(const std::vector<std::int64_t>& split);

}  // namespace lockstep::layout
