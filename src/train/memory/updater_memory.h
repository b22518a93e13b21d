#pragma once

// The memory of the way from gradients to new weights on one rank, declared from sizes alone. Which updater a run has, and so
// what it needs, follows from the configuration.

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
  Arena& buffers;  ///< of state that is offloaded
};

/// What an updater asks for, beside gradients.
struct UpdaterNeeds {
  int ranks = 1;             ///< that sum their gradients by themselves
  int norm_ranks = 1;        ///< that take the norm of the gradient together; 0: it is not taken here
  bool slots = true;         ///< the optimizer's, on this rank
  bool saved_slots = false;  ///< others, for a checkpoint
};

struct UpdaterMemory {
  /// What config.servers asks for, or replicas, on the rank that has `part` and `weights`; what lies elsewhere in `spill`.
  void declare(const UpdaterArenas& arenas, const EngineConfig& config, const RankPart& part,
               const parallel::ParameterMemory& weights, parallel::Spill& spill);

  parallel::GradientMemory gradients;                     ///< or
  parallel::OffloadedGradientMemory offloaded_gradients;  ///< where they go along with the optimizer's state
  parallel::PartialGradientMemory partial;
  parallel::TreeGradientMemory tree;  ///< in canonical mode
  parallel::SlotMemory slots, saved_slots;
  parallel::NormMemory norm;
  WholeTensorMemory whole;
  /// Where each micro-batch's gradient is complete on the ranks that read it before the next one's is begun.
  parallel::NoiseMemory noise;
  parallel::OffloadMemory offload;
  Tensor whole_masters;  ///< f32: a range of them, where they are kept in halves (parallel/zero/halved_state)
  bool halves() const { return whole_masters.shape.rank() > 0; }
};

}  // namespace lockstep::train
