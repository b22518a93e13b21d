#pragma once

// Gradients of all units in one flat f32 buffer, in the order in which backward is done with them; reduced over the
// data-parallel group bucket by bucket while backward goes on. A bucket is nothing but neighbours that share a call.

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "ops/elementwise.h"
#include "parallel/gradient_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// When ranks are reduced (numerics.md section 3.3): once a step, ((a0 + a1) + (b0 + b1)), or each micro-batch,
/// ((a0 + b0) + (a1 + b1)). With one micro-batch they are the same.
enum class ReduceEvery : std::uint8_t { step, microbatch };

struct GradientOptions {
  ReduceEvery reduce = ReduceEvery::step;
  std::int64_t bucket_bytes = 25 << 20;  ///< a bucket takes units until it has as many
  bool overlap = true;                   ///< false: each reduction is waited for at once; the same bits
};

class ZeroGradients final : public GradientStore {
 public:
  /// `order`: every unit, in the order of close() within a micro-batch. `group` and `elementwise` outlive the store; gradients
  /// are summed over the group.
  ZeroGradients(const std::vector<layout::Unit>& units, const std::vector<UnitIndex>& order, comm::Communicator& group,
                ops::Elementwise& elementwise, const GradientOptions& options);
  /// For steps of `microbatches`.
  void declare(Arena& arena, int microbatches);

  void begin(int microbatches) override;
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override;
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override;
  Shard shard(UnitIndex unit) override;

  /// Seconds of the step for which reductions were waited for.
  double exposed_seconds() const { return exposed_seconds_; }
  /// Seconds of the step from the first complete gradient of a unit to finish(), those left out: what reductions can hide behind.
  double cover_seconds() const { return cover_seconds_; }

 private:
  struct Entry {
    std::int64_t first = 0, elements = 0;
    std::size_t bucket = 0;
    int opened = 0;  ///< micro-batches that have opened it in this step
  };
  struct Bucket {
    std::int64_t first = 0, elements = 0;
    int units = 0;
    int closed = 0;   ///< units of this micro-batch
    int reduced = 0;  ///< when each micro-batch is reduced: how many were,
    int taken = 0;    ///< and how many of them were added to the sum
    comm::Request reduction = {};
  };
  Entry& entry(UnitIndex unit) { return entries_[static_cast<std::size_t>(unit.value)]; }
  bool each_microbatch() const { return options_.reduce == ReduceEvery::microbatch && microbatches_ > 1 && group_.size() > 1; }
  void reduce(Bucket& bucket, const Tensor& from);
  void take(Bucket& bucket);

  std::vector<Entry> entries_;
  std::vector<Bucket> buckets_;
  std::int64_t elements_ = 0;
  comm::Communicator& group_;
  ops::Elementwise& elementwise_;
  GradientOptions options_;
  Tensor sum_;    ///< the step's gradient
  Tensor fresh_;  ///< one micro-batch's, when each is reduced
  int microbatches_ = 0;
  double exposed_seconds_ = 0, cover_seconds_ = 0;
  double first_ready_ = 0;  ///< now_seconds() of the step's first complete gradient; 0: there is none yet
};

}  // namespace lockstep::parallel
