#pragma once

// Reader ranks: the first rank of a group reads for all of it and scatters. It does so a step ahead, while the group works on the
// step before. What a rank trains on is what it would have read itself. Windows for evaluation come the same way, when they are
// asked for.

#include <array>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"

namespace lockstep::data {

class ScatteredLoader final : public BatchSource {
 public:
  /// `shape` is this rank's of the whole run. `group` are the neighbouring ranks that share a reader; all groups have one size.
  /// Group rank 0 is the reader, and reads with `workers` as a Loader does. `file` outlives the loader and is read on the reader
  /// alone. Calls of next() are collective in the group. So is the destructor, which waits for the step that is under way.
  ScatteredLoader(const TokenFile& file, const Sampler& sampler, const LoaderShape& shape, comm::Communicator& group,
                  int workers = 1);

  void declare(Arena& arena) override;
  void start(std::uint64_t step, std::uint64_t next_sample) override;
  StepBatches next() override;
  double waited_seconds() const override { return waited_; }

 private:
  /// What this rank gets for one step.
  struct Slot {
    Tensor tokens, targets;  ///< [microbatches * B * T]
    std::vector<Batch> batches;
    comm::Request coming_tokens, coming_targets;
  };
  Slot& slot_of(std::uint64_t step) { return slots_[step % slots_.size()]; }
  /// Begins to bring the step after the last one that was brought.
  void bring();
  void collect(const StepBatches& read, Tensor Batch::* member, const Tensor& to) const;

  LoaderShape shape_;
  comm::Communicator& group_;
  std::optional<Loader> reader_;
  Tensor all_tokens_, all_targets_;  ///< [group, microbatches * B * T] on the reader
  std::array<Slot, 2> slots_;        ///< step s in s modulo their number
  std::uint64_t step_ = 0, brought_ = 0, next_sample_ = 0;
  double waited_ = 0;
};

class ScatteredWindows final : public WindowSource {
 public:
  /// Takes what a WindowReader takes. `file` is read on the reader alone. read() is collective in the group, each rank with its
  /// own index.
  ScatteredWindows(const TokenFile& file, const Sampler& sampler, std::int64_t samples, std::int64_t positions,
                   std::int64_t limit, comm::Communicator& group);

  void declare(Arena& arena) override;
  std::int64_t batches() const override { return reader_.batches(); }
  const TokenFile& file() const override { return reader_.file(); }
  const Batch& read(std::int64_t index) override;

 private:
  bool reads() const { return group_.rank() == 0; }

  comm::Communicator& group_;
  WindowReader reader_;
  Batch batch_;
  Tensor all_tokens_, all_targets_;    ///< [group, B * T] on the reader
  std::vector<std::int64_t> indices_;  ///< the group's indices, on the reader
};

}  // namespace lockstep::data
