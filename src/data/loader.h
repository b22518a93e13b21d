#pragma once

// Batches, made before they are asked for. A Loader prepares the micro-batches of the next steps in threads of its own while the
// current step computes. Without threads it makes all of a step when it is asked for. A WindowReader makes single batches at
// once, for evaluation. Both allocate nothing per batch.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/batch_source.h"
#include "data/sampler.h"
#include "data/token_file.h"
#include "tensor/arena.h"

namespace lockstep::data {

class Loader final : public BatchSource {
 public:
  /// `file` outlives the loader; the sampler's positions are the shape's. Each of `workers` threads makes every workers-th step,
  /// as many steps ahead as there are workers. With 0 workers next() makes a step in the caller's thread, for bytes that no other
  /// thread may read.
  Loader(const TokenFile& file, Sampler sampler, LoaderShape shape, int workers = 1);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The memory of the step in use and of one for each worker, which writes there.
  void declare(Arena& arena) override;
  void start(std::uint64_t step, std::uint64_t next_sample) override;
  /// What went wrong in reading is thrown here, in this and every later call.
  StepBatches next() override;
  double waited_seconds() const override { return waited_; }
  const LoaderShape& shape() const { return shape_; }
  const Sampler& sampler() const { return sampler_; }

 private:
  struct Slot {
    std::vector<Batch> batches;
    std::uint64_t step = 0;
    std::int64_t target_count = 0;
    bool ready = false;  // `step` was made, or failed
    std::exception_ptr failure;
  };
  Slot& slot_of(std::uint64_t step) { return slots_[step % slots_.size()]; }
  void run(std::uint64_t first, const std::stop_token& stop);
  void make(Slot& slot, std::uint64_t step);

  const TokenFile& file_;
  Sampler sampler_;
  LoaderShape shape_;
  std::vector<Slot> slots_;  // step s in s modulo their number
  bool started_ = false;
  std::uint64_t next_ = 0;  // step that next() returns
  std::uint64_t kept_ = 0;  // the first step whose slot is not free for another
  std::uint64_t first_ = 0, first_sample_ = 0;
  double waited_ = 0;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::jthread> workers_;  // last: they stop before what they use goes
};

/// Makes batches at once, by number: the same windows every time.
class WindowReader final : public WindowSource {
 public:
  /// `limit` windows in the sampler's order. `file` outlives the reader.
  WindowReader(const TokenFile& file, Sampler sampler, std::int64_t samples, std::int64_t positions, std::int64_t limit);

  void declare(Arena& arena) override;
  /// ceil(limit / samples).
  std::int64_t batches() const override;
  std::int64_t windows() const { return limit_; }
  const TokenFile& file() const override { return file_; }
  /// Rows that the last batch lacks, and what a window lacks, have token 0 and target -1.
  const Batch& read(std::int64_t index) override;

 private:
  const TokenFile& file_;
  Sampler sampler_;
  std::int64_t limit_;
  Batch batch_;
};

struct EvaluationWindows {
  bool packed = false;        ///< the windows do not overlap
  std::int64_t together = 1;  ///< `together` and `references` are SamplerOptions'
  std::shared_ptr<const std::vector<double>> references = {};
};
/// Windows drawn for evaluation on `split` ("train", "val"): another sequence than training's, the same ones at every evaluation,
/// so that curves compare.
Sampler evaluation_sampler(const TokenFile& file, std::int64_t positions, std::uint64_t seed, const std::string& split,
                           EvaluationWindows windows = {});
/// Windows of the file such that each of its targets counts once, a window every `stride` tokens (0: T); the last may be shorter.
Sampler whole_file_sampler(const TokenFile& file, std::int64_t positions, std::int64_t stride = 0);

}  // namespace lockstep::data
