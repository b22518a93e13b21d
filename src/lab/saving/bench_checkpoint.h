#pragma once

// How fast ranks write a checkpoint and read it. Training waits for one; beside it the same bytes are written and read without
// any of its care. Training goes on beside the other one.

#include <cstdint>

#include "base/text/answer.h"
#include "comm/communicator.h"
#include "device/runtime.h"
#include "io/file.h"
#include "lab/step/step_shapes.h"
#include "ops/ops.h"

namespace lockstep::lab {

struct CheckpointOptions {
  io::Path folder = ".";  ///< on the file system that is measured; a folder of its own in it comes and goes
  int rounds = 5;
  int zero = 0;  ///< as memory.zero
};

/// Seconds and shares are medians over the rounds.
struct CheckpointReport {
  StepShape shape;
  int ranks = 1, zero = 0;
  std::uint64_t bytes = 0;  ///< of a checkpoint
  double save = 0;          ///< until it is durable, training waiting
  double raw = 0;           ///< the same bytes: each rank writes its share into a file and calls fdatasync()
  double ratio = 0;         ///< raw / save of the same round
  double load = 0;          ///< the checkpoint into weights and optimizer, every byte verified, none of it cached before
  double raw_read = 0;      ///< the bytes that raw wrote, none of them cached before
  double load_ratio = 0;    ///< raw_read / load of the same round
  double beside = 0;        ///< until a checkpoint is durable that training goes on beside
  double waited = 0;        ///< of that, how long training waited
  double waited_share = 0;  ///< waited / beside of the same round
  double step = 0;          ///< alone
  double step_beside = 0;   ///< while a save goes on
  std::int64_t copies = 0;  ///< bytes of a rank's memory for copies

  /// GB/s, where all bytes take so many seconds.
  double rate(double seconds) const { return 1e-9 * static_cast<double>(bytes) / seconds; }
};

/// The ranks of `world` share the shape's samples; collective, the report is rank 0's. Throws UserError when the samples do
/// not divide by the ranks or the folder cannot be written.
CheckpointReport bench_checkpoint(const StepShape& shape, const CheckpointOptions& options, Runtime& runtime, ops::Ops& ops,
                                  comm::Communicator& world);

Answer answer_of(const CheckpointReport& report);

}  // namespace lockstep::lab
