#pragma once

// Where a rank's micro-batches, and the windows that it evaluates on, come from.

#include <cstdint>
#include <span>

#include "data/batch.h"
#include "data/token_file.h"
#include "tensor/arena.h"

namespace lockstep::data {

/// Which part of a step this rank reads. A step holds the next global_batch() samples. Data-parallel rank r reads the
/// micro-batches r * microbatches .. (r + 1) * microbatches - 1 of it (numerics.md section 1).
struct LoaderShape {
  std::int64_t samples = 1;       ///< B: of a micro-batch
  std::int64_t positions = 1;     ///< T
  std::int64_t microbatches = 1;  ///< micro-batches of a step, on this rank
  int rank = 0, ranks = 1;        ///< this rank among the data-parallel ranks

  std::int64_t global_batch() const { return samples * microbatches * ranks; }
  /// First sample of a micro-batch of the step that begins at sample `next`.
  std::uint64_t first_sample(std::uint64_t next, std::int64_t microbatch) const {
    return next + static_cast<std::uint64_t>((rank * microbatches + microbatch) * samples);
  }
};

/// The micro-batches of one step on this rank.
struct StepBatches {
  std::uint64_t step = 0;
  std::span<const Batch> microbatches;
  std::int64_t target_count = 0;  ///< targets of all micro-batches: known before the first is used
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Declares memory for batches. The arena outlives the source.
  virtual void declare(Arena& arena) = 0;
  /// Begins at step `step`, whose first global sample is `next_sample`, after the arena was committed. It is called once.
  virtual void start(std::uint64_t step, std::uint64_t next_sample) = 0;
  /// The next step in order, from start()'s on. The batches hold until the next call.
  virtual StepBatches next() = 0;
  /// Seconds that next() has waited in all.
  virtual double waited_seconds() const = 0;
};

/// Batches of windows by number: the same ones every time.
class WindowSource {
 public:
  virtual ~WindowSource() = default;
  /// Declares memory for a batch. The arena outlives the source.
  virtual void declare(Arena& arena) = 0;
  virtual std::int64_t batches() const = 0;
  /// The file that the windows are of.
  virtual const TokenFile& file() const = 0;
  /// Batch `index` of batches(); holds until the next call. Where ranks share a reader, collective among them.
  virtual const Batch& read(std::int64_t index) = 0;
};

}  // namespace lockstep::data
