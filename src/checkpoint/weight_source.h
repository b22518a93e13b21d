#pragma once

// Where a model's weights come from: a checkpoint, or files that another program published. Each rank fills the ranges that it
// holds.

#include <memory>
#include <span>

#include "checkpoint/tensor_file.h"
#include "comm/communicator.h"
#include "device/team.h"

namespace lockstep::checkpoint {

/// Fills ranges of tensors, some at a time. Its source outlives it.
class RangeReader {
 public:
  virtual ~RangeReader() = default;
  /// Fills the ranges of tensors of the table that the reader was made for. All ranks together fill every element once and count
  /// it, and others that hold it too, fill it without counting. What fails is said by finish(), so that the ranks stay together.
  virtual void fill(std::span<const HeldTensor> tensors, Team& team) = 0;
  /// Is called after the last fill(). It throws on every rank what failed on one, and UserError that names damaged tensors. The
  /// contents of all ranges are undefined then. Collective.
  virtual void finish(comm::Communicator& ranks) = 0;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Reads `weights`, all weights of a model. Throws UserError, listing what differs, when the source is of another model. The
  /// reader's finish() refuses weights that are not finite.
  virtual std::unique_ptr<RangeReader> read_model(std::span<const LogicalTensor> weights) const = 0;
};

}  // namespace lockstep::checkpoint
