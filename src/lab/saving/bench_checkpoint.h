#pragma once

// How fast ranks write a checkpoint and read it. One kind of checkpoint lets training wait. The same bytes
// are also written and read raw. The other kind is written while training goes on.

#include <cstdint>

#include "base/text/answer.h"
#include "comm/communicator.h"
#include "device/runtime.h"
#include "io/file.h"
#include "lab/step/step_shapes.h"
#include "ops/ops.h"

namespace lockstep::lab {

struct CheckpointOptions {
  io::Path folder = ".";  ///< on the file system that is measured; the bench makes a folder in it and removes it
  int rounds = 5;
  int zero = 0;  ///< as memory.zero
};

/// Seconds and shares are medians over the rounds.
struct CheckpointReport {
  StepShape shape;
  int ranks = 1, zero = 0;
  std::uint64_t bytes = 0;  ///< of a checkpoint
  double save = 0;          ///< a checkpoint that training waits for, until it is durable
  double raw = 0;           ///< the same bytes: each rank writes its share into a file and calls fdatasync()
  double ratio = 0;         ///< raw / save of the same round
  double load = 0;          ///< the checkpoint into weights and optimizer, every byte verified, none of it cached before
  double raw_read = 0;      ///< reading the bytes of `raw`, none of them cached before
  double load_ratio = 0;    ///< raw_read / load of the same round
  double beside = 0;        ///< a checkpoint that is written while training goes on, until it is durable
  double waited = 0;        ///< the part of `beside` in which training waited
  double waited_share = 0;  ///< waited / beside of the same round
  double step = 0;          ///< a step alone
  double step_beside = 0;   ///< a step while a checkpoint is written
  std::int64_t copies = 0;  ///< bytes of a rank's memory for copies

  /// GB/s of the checkpoint's bytes in `seconds`.
  double rate(double seconds) const { return 1e-9 * static_cast<double>(bytes) / seconds; }
};

/// The ranks of `world` share the shape's samples; collective, the report is rank 0's. Throws UserError when the samples do
/// not divide by the ranks or the folder cannot be written.
CheckpointReport bench_checkpoint(const StepShape& shape, const CheckpointOptions& options, Runtime& runtime, ops::Ops& ops,
                                  comm::Communicator& world);

Answer answer_of(const CheckpointReport& report);

}  // namespace lockstep::lab
