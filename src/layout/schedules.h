#pragma once

// The pipeline's schedules by name, as ParallelPlan::schedule gives it: each makes a rank's list of actions from its place in the
// pipeline. A new one is a function and a row of the table in schedules.cpp.

#include <span>
#include <string_view>
#include <vector>

#include "layout/parallel_plan.h"
#include "layout/pipeline_schedule.h"

namespace lockstep::layout {

/// The chunks of a pipeline rank, of a model of `layers` blocks: the blocks are cut into pp x chunks stages, of which it has
/// every pp-th, its own number first.
std::vector<Chunk> chunks_of(const ParallelPlan& plan, int pipeline_rank, std::int64_t layers);

/// A rank's place in a pipeline whose ranks have one chunk each, in the model's order.
struct PipelinePlace {
  int stage = 0, stages = 1;
  int microbatches = 1;  ///< of a step
};

struct NamedSchedule {
  std::string_view name;
  std::vector<Action> (*actions)(const PipelinePlace& place);
};

/// gpipe: all forward, then all backward; a rank keeps all micro-batches (Huang et al. 2019).
/// 1f1b: `stages - stage - 1` forward, then one forward, one backward; a rank keeps at most `stages - stage` (Narayanan et al.
/// 2019). On one stage this is forward and backward of each micro-batch in turn.
std::span<const NamedSchedule> schedules();
/// Null: no schedule has this name.
const NamedSchedule* find_schedule(std::string_view name);

}  // namespace lockstep::layout
