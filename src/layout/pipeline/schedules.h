#pragma once

// The pipeline's schedules by name, as ParallelPlan::schedule gives it. Each schedule says which rank has which stages and makes
// every rank's passes. Messages follow from the passes (passes.h). A new schedule is a function and a row of the table in
// schedules.cpp.

#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "layout/parallel_plan.h"
#include "layout/pipeline/passes.h"

namespace lockstep::layout {

struct PipelineShape {
  int ranks = 1;         ///< p
  int chunks = 1;        ///< v, the model's chunks on each rank
  int microbatches = 1;  ///< m, of a step on each data-parallel rank
};

struct NamedSchedule {
  std::string_view name;
  std::string_view about;  ///< a few words
  enum class Chunks : std::uint8_t { one, several, vee } chunks;
  /// The micro-batches that the schedule needs for each rank; 0: any number will do.
  int least_microbatches;
  /// Makes the passes of each rank.
  std::vector<std::vector<StagePass>> (*passes)(const PipelineShape& shape);
};

/// The schedules, for rank r of p ranks:
/// - gpipe: all forward, then all backward; a rank keeps all micro-batches (Huang et al. 2019).
/// - 1f1b: p - r - 1 forward, then one forward, one backward; keeps at most p - r (Narayanan et al. 2019).
/// - interleaved: 1f1b over v chunks a rank, in groups of p micro-batches or somewhat more (Narayanan et al. 2021).
/// - breadth-first: gpipe over v chunks a rank, each chunk with all micro-batches (Lamy-Poirier 2023).
/// - zb-h1: 1f1b with the gradients of weights put where ranks would wait; each keeps at most p (Qi et al. 2023).
/// - zb-v: two chunks a rank in a V; each rank takes what is ready, backward first, and keeps at most p (Qi et al. 2024).
/// - dualpipe-v: two chunks in a V that take turns from both sides (DeepSeek-AI 2025); at least 2 p micro-batches.
/// On one rank 1f1b is forward and backward of each micro-batch in turn.
std::span<const NamedSchedule> schedules();
/// Null: no schedule has this name.
const NamedSchedule* find_schedule(std::string_view name);

/// Chunks a rank where the user names no number.
int usual_chunks(const NamedSchedule& schedule, int ranks);
/// What is wrong with the numbers in `shape` for the schedule, by the names of settings. Empty: nothing.
std::vector<Problem> check(const NamedSchedule& schedule, const PipelineShape& shape,
                           const PlanGrammar& say = settings_grammar());

StageMap stage_map(const NamedSchedule& schedule, const PipelineShape& shape);
StageMap stage_map(const ParallelPlan& plan);
/// Every rank's list of actions. Throws BrokenRule where check() finds a problem.
std::vector<std::vector<Action>> actions_of(const NamedSchedule& schedule, const PipelineShape& shape);
std::vector<std::vector<Action>> actions_of(const ParallelPlan& plan);
/// Whether some rank makes weight gradients later than the gradient of the input.
bool makes_weights_later(const ParallelPlan& plan);

/// The chunks of a rank. `split`: how many of the model's blocks each of the map's stages has.
std::vector<Chunk> chunks_of(const StageMap& map, int rank, const std::vector<std::int64_t>& split);
/// The chunks of a rank, of a model of `layers` blocks that are cut evenly.
std::vector<Chunk> chunks_of(const StageMap& map, int rank, std::int64_t layers);
/// The chunks of a rank, of a model of `layers` blocks that are cut as the plan says.
std::vector<Chunk> chunks_of(const ParallelPlan& plan, int rank, std::int64_t layers);

}  // namespace lockstep::layout
