#pragma once

// Memory for the micro-batch of another replica that a rank computes again (train/audit/audit.h); empty where nothing is audited.

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
