#pragma once

// Where a model's weights come from: a checkpoint, or files that another program published.

#include <span>

#include "checkpoint/tensor_file.h"
#include "device/cpu/team.h"

namespace lockstep::checkpoint {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Fills all ranges of all weights of a model. Throws UserError, listing what differs, when the source is of another model.
  virtual void read_model(std::span<const HeldTensor> weights, cpu::Team& team) const = 0;
};

}  // namespace lockstep::checkpoint
