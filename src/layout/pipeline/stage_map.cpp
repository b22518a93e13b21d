#include "layout/pipeline/stage_map.h"

#include <algorithm>

#include "base/error.h"

namespace lockstep::layout {

StageMap::StageMap(int ranks, std::vector<int> rank_of) : rank_of_(std::move(rank_of)) {
  ensure(ranks >= 1, "a pipeline has at least one rank");
  stages_of_.resize(static_cast<std::size_t>(ranks));
  for (std::size_t stage = 0; stage < rank_of_.size(); ++stage) {
    ensure(rank_of_[stage] >= 0 && rank_of_[stage] < ranks, "every stage is with a rank of the pipeline");
    std::vector<int>& own = stages_of_[static_cast<std::size_t>(rank_of_[stage])];
    chunk_of_.push_back(static_cast<int>(own.size()));
    own.push_back(static_cast<int>(stage));
  }
  ensure(std::ranges::none_of(stages_of_, &std::vector<int>::empty), "every rank of a pipeline has a stage");
}

StageMap StageMap::looped(int ranks, int chunks) {
  std::vector<int> rank_of;
  for (int stage = 0; stage < ranks * chunks; ++stage) rank_of.push_back(stage % ranks);
  return {ranks, std::move(rank_of)};
}

StageMap StageMap::vee(int ranks) {
  std::vector<int> rank_of;
  for (int stage = 0; stage < 2 * ranks; ++stage) rank_of.push_back(std::min(stage, 2 * ranks - 1 - stage));
  return {ranks, std::move(rank_of)};
}

std::vector<Neighbours> StageMap::neighbours_of(int rank) const {
  std::vector<Neighbours> all;
  for (const int stage : stages_of(rank))
    all.push_back({.before = stage > 0 ? rank_of(stage - 1) : -1, .behind = stage + 1 < stages() ? rank_of(stage + 1) : -1});
  return all;
}

}  // namespace lockstep::layout
