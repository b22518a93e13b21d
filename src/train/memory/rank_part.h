#pragma once

// A rank's part of a run: chunks of the model, its share of their weights, and what it does with them in a step. The
// configuration and the rank's coordinates determine all of it. So it is known for any rank of any plan, without a run.

#include <vector>

#include "layout/pipeline/schedules.h"
#include "layout/sharded_dims.h"
#include "layout/state_cut.h"
#include "model/stage_memory.h"
#include "train/engine_config.h"

namespace lockstep::train {

struct RankPart {
  layout::Coordinates at;
  std::vector<layout::Chunk> chunks;
  std::vector<layout::Action> actions;  ///< of a step
  layout::ShardedDims dims;             ///< of this rank's tensor-parallel share
  layout::StateCut cut;                 ///< the part of each unit that it updates
  layout::StageMap stages;              ///< of the pipeline
  arch::UnitMap map;                    ///< of the model's units
  std::vector<layout::Unit> units;      ///< the model's, in this rank's share; units that no chunk of the rank uses are empty
  bool embedding = false, head = false;
};
/// Throws BrokenRule for a plan that training cannot follow. Examples: kinds of state are cut over different ranks, gradients
/// have a place of their own, or workers of parameter servers offload state.
RankPart rank_part(const EngineConfig& config, const layout::Coordinates& at);

/// What the passes of the part lease: weights of units, or their tiles.
arch::PartMap lease_parts(const EngineConfig& config, const RankPart& part);
/// Sizes of the memory that the part's passes need; `attention` outlives it.
model::ModelShape model_shape(const EngineConfig& config, const RankPart& part, parallel::ContextAttention& attention,
                              const model::Sums& sums);
/// The gradients that the part's steps add up, over `ranks` ranks.
parallel::GradientWork gradient_work(const EngineConfig& config, const RankPart& part, int ranks);
/// Spans of config.traced_steps steps for which there is room: more than twice what a layout of `verify` needs, 262,144 at the
/// most.
std::int64_t traced_spans(const EngineConfig& config, const RankPart& part);

}  // namespace lockstep::train
