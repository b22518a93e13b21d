#pragma once

// A pipeline's passes rank by rank, and the messages that follow from them.

#include <vector>

#include "layout/pipeline/pipeline_schedule.h"
#include "layout/pipeline/stage_map.h"

namespace lockstep::layout {

struct StagePass {
  Action::Kind kind;  ///< forward, backward, input_backward or weight_backward
  int stage;          ///< number among the pipeline's stages
  int microbatch;
  friend bool operator==(const StagePass&, const StagePass&) = default;
};

/// The passes as actions, without messages.
std::vector<std::vector<Action>> bare_actions(const std::vector<std::vector<StagePass>>& passes, const StageMap& map);

/// Each rank's list of actions. `passes`: by rank, with every stage complete and in the order of micro-batches. Throws BrokenRule
/// where ranks would wait for each other. What a pass makes for another rank is sent behind it. It is received before the first
/// pass that begins after its arrival, if all passes took as long. Receives from one rank have the order of its sends. They come
/// early enough: no rank waits for a receive that comes behind a pass which waits for that rank.
std::vector<std::vector<Action>> with_messages(const std::vector<std::vector<StagePass>>& passes, const StageMap& map);

}  // namespace lockstep::layout
