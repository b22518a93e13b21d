#pragma once

// The memory of the way from gradients to new weights on one rank, declared from sizes alone. The configuration says which
// updater a run has, and so which memory it needs.

#include "parallel/global_norm.h"
#include "parallel/offload/offload_memory.h"
#include "parallel/offload/offloaded_gradients.h"
#include "parallel/parameter_memory.h"
#include "parallel/tensor/partial_gradients.h"
#include "parallel/zero/gradients.h"
#include "parallel/zero/halved_state.h"
#include "parallel/zero/resident_state.h"
#include "parallel/zero/tree_gradients.h"
#include "train/memory/rank_part.h"

namespace lockstep::train {

struct UpdaterArenas {
  Arena &gradients, &optimizer, &activations, &workspace;
  Arena& buffers;  ///< of offloaded state
};

/// The memory that an updater asks for, beside gradients.
struct UpdaterNeeds {
  int ranks = 1;             ///< that sum their gradients with each other
  int norm_ranks = 1;        ///< that take the norm of the gradient together; 0: it is not taken here
  bool slots = true;         ///< whether this rank keeps the optimizer's slots
  bool saved_slots = false;  ///< whether it keeps copies of slots, for a checkpoint
};

struct UpdaterMemory {
  /// Declares what the updater of config.servers needs, or else replicas, on the rank with `part` and `weights`. Offloaded state
  /// is entered in `spill`.
  void declare(const UpdaterArenas& arenas, const EngineConfig& config, const RankPart& part,
               const parallel::ParameterMemory& weights, parallel::Spill& spill);

  parallel::GradientMemory gradients;                     ///< or `offloaded_gradients`
  parallel::OffloadedGradientMemory offloaded_gradients;  ///< where gradients are offloaded with the optimizer's state
  parallel::PartialGradientMemory partial;
  parallel::TreeGradientMemory tree;  ///< in canonical mode
  parallel::SlotMemory slots, saved_slots;
  parallel::NormMemory norm;
  WholeTensorMemory whole;
  /// Declared where each micro-batch's gradient is complete, on the ranks that read it, before the next one's is begun.
  parallel::NoiseMemory noise;
  parallel::OffloadMemory offload;
  Tensor whole_masters;  ///< f32: of one range, where masters are kept in halves (parallel/zero/halved_state)
  bool halves() const { return whole_masters.shape.rank() > 0; }
};

}  // namespace lockstep::train
