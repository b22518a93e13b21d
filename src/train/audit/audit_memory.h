#pragma once

// Memory for what a replica does again for another one (train/audit/audit.h); none where nothing is audited.

#include "parallel/audit/audited_gradients.h"
#include "train/memory/rank_part.h"

namespace lockstep::train {

struct AuditMemory {
  /// `host`: an arena in the host's memory.
  void declare(Arena& gradients_again, Arena& host, const EngineConfig& config, const RankPart& part);

  parallel::AuditMemory gradients;
  Tensor tokens, targets;  ///< [samples * positions] i32: of another replica
  Tensor references;       ///< [samples] f64, where samples are judged whole
};

}  // namespace lockstep::train
