#pragma once

// Gradients of all units in one flat f32 buffer, in the order in which the backward pass completes them. They are reduced over
// the data-parallel group bucket by bucket while the backward pass goes on. A bucket is neighbours in that order whose gradients
// one call reduces. Where each rank needs only its part of the sum (ZeRO), each unit has its own call, and those of a bucket
// begin together.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "arch/parameters.h"
#include "comm/communicator.h"
#include "layout/parallel_plan.h"
#include "layout/state_cut.h"
#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "parallel/zero/tied_matrix.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

struct GradientOptions {
  std::int64_t bucket_bytes = 25 << 20;  ///< a bucket takes units until it has as many
  bool overlap = true;                   ///< false: each reduction is waited for at once; the same bits
};

/// What a step adds up on each rank.
struct GradientWork {
  int microbatches = 1;
  layout::ReduceEvery reduce = layout::ReduceEvery::step;
  std::int64_t tokens = 0;    ///< of all micro-batches, at most
  int open_microbatches = 1;  ///< at the same time: layout::open_microbatches
  int ranks = 1;              ///< that gradients are summed over
  layout::StateCut cut = {};  ///< what this rank needs of the sum
  /// Whole gradients are kept no longer than until they are reduced, where that can be before the last micro-batch. All buckets
  /// then take turns in the memory of two. `bucket_bytes` is that of GradientOptions.
  bool cut_gradients = false;
  bool units_in_turn = true;          ///< a unit is closed before the next one is opened: no weight gradients come later
  std::vector<UnitIndex> order = {};  ///< the units that get gradients here, in the order in which backward completes them
  std::int64_t bucket_bytes = GradientOptions{}.bucket_bytes;
  bool canonical = false;  ///< micro-batches are added as ranks are (tree_gradients)
  /// A tied matrix, where the rank has one: [V, C], and which part of its gradient is made here.
  struct Tied {
    UnitIndex unit{-1};
    Shape shape = {};
    TiedSide side = TiedSide::both;
  };
  std::optional<Tied> tied = {};
  /// Whether each micro-batch is reduced by itself: with one micro-batch or one rank it makes no difference.
  bool each_microbatch() const { return reduce == layout::ReduceEvery::microbatch && microbatches > 1 && ranks > 1; }
  /// Whether buckets take turns. Micro-batches that are open side by side need all their memory, as a sum of several does.
  bool in_turns() const {
    return cut_gradients && !cut.whole() && open_microbatches == 1 && units_in_turn && (microbatches == 1 || each_microbatch());
  }
};

/// Units that are neighbours in the order of the backward pass. Their gradients are reduced together.
struct GradientBucket {
  std::int64_t first = 0, elements = 0;  ///< of the gradients of all units in that order
  std::vector<UnitIndex> units = {};
};
/// Divides the units in `order` into buckets. A bucket takes units until it has `bytes`.
std::vector<GradientBucket> gradient_buckets(const std::vector<layout::Unit>& units, const std::vector<UnitIndex>& order,
                                             std::int64_t bytes);

/// The token table where the rank has one.
std::optional<arch::TokenTable> held_table(const std::vector<layout::Unit>& units, const arch::UnitMap& map);

/// The memory of a rank's gradients.
struct GradientMemory {
  /// `units`: all that the rank holds.
  void declare(const GradientArenas& arenas, const std::vector<layout::Unit>& units, const GradientWork& work);

  layout::StateCut cut;
  std::vector<UnitIndex> order;  ///< units that get gradients here
  /// The step's gradient, f32: [elements of the units in `order`]. Where gradients are reduced in other memory, it has only the
  /// elements that this rank needs. Behind them lies what the rank needs of a tied matrix whose head is elsewhere.
  Tensor sum;
  std::vector<Tensor> turns;  ///< [elements of the largest of every other bucket] f32, where buckets take turns
  std::vector<Tensor> fresh;  ///< where each micro-batch is reduced: gradients of as many as may be open, in turns
  UnitIndex tied_unit{-1};
  std::optional<TiedMatrixMemory> tied;  ///< where GradientWork has one
};

/// The ranks that add up gradients.
struct GradientGroups {
  comm::Communicator& replicas;  ///< ranks with the same parameters
  TiedPartner tied = {};         ///< who has the other part of a tied matrix's gradient
};

class ZeroGradients final : public GradientStore {
 public:
  /// Gradients of a model's units are summed over groups.replicas, which has as many ranks as `memory` was declared for. A shard
  /// is what this rank needs of the sum. The references outlive the store.
  ZeroGradients(const std::vector<layout::Unit>& units, const arch::UnitMap& map, int microbatches, const GradientMemory& memory,
                const GradientGroups& groups, ops::Ops& ops, const GradientOptions& options);

  void begin(int microbatches) override;
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override;
  void expect(const Tensor& tokens) override;
  Tensor open_rows(Microbatch microbatch) override;
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override;
  Shard shard(UnitIndex unit) override;

  /// Calls watch(unit, gradient) from now on with this rank's gradient of the first micro-batch of each unit. It is called before
  /// the gradient is reduced and before another one is added to it.
  void watch_first(std::function<void(UnitIndex, const Tensor&)> watch) { first_watch_ = std::move(watch); }

  /// As finish(), but a tied matrix's parts stay apart, for servers to reduce and add. The matrix's shard is H. tied_rows() is E
  /// [V, C] until the next begin().
  void finish_apart();
  const Tensor& tied_rows() const { return tied_->rows(); }

  /// Gradients are reduced in other memory than the sum's, and then added to the sum.
  bool reduces_each_microbatch() const override { return each_microbatch() || in_turns(); }

  double exposed_seconds() const override { return exposed_seconds_; }
  double overlappable_seconds() const override { return overlappable_seconds_; }

 private:
  struct Entry {
    std::int64_t first = 0, elements = 0;
    layout::Range held = {};                ///< what this rank needs of the unit
    std::int64_t sum_first = 0;             ///< where `held` begins in the sum
    std::vector<std::int64_t> counts = {};  ///< what each rank needs, where each needs another part
    std::vector<layout::Range> gaps = {};   ///< of the unit: elements of no parameter
    std::size_t bucket = 0;
    int opened = 0, closed = 0;  ///< micro-batches that have done so in this step
  };
  /// A bucket's part of a micro-batch, or of the step.
  struct Piece {
    int closed = 0;                              ///< units
    std::vector<comm::Request> reductions = {};  ///< one of the bucket, or one a unit
  };
  struct Bucket : GradientBucket {
    int taken = 0;                   ///< when each micro-batch is reduced: how many were added to the sum
    std::vector<Piece> pieces = {};  ///< of the step; when each micro-batch is reduced, of those that may be open, taking turns
  };
  Entry& entry(UnitIndex unit) { return entries_[static_cast<std::size_t>(unit.value)]; }
  void lay_out(const std::vector<layout::Unit>& units);
  bool in_turns() const { return !memory_.turns.empty(); }
  bool each_microbatch() const { return !memory_.fresh.empty(); }
  /// Whether each rank gets another part of the sum. Where several ranks need the same part, all get all of it.
  bool scatters() const { return !memory_.cut.whole() && memory_.cut.copies == 1; }
  Tensor held_sum(const Entry& e) const;
  /// Makes room for a bucket, where buckets take turns: what lies there goes to the sum.
  void claim(std::size_t bucket);
  /// Where a micro-batch's gradient of a bucket is added up.
  Tensor buffer(std::size_t bucket, int microbatch) const;
  Tensor of_unit(const Entry& e, const Tensor& bucket) const {
    return bucket.flat(e.first - buckets_[e.bucket].first, e.elements);
  }
  Tensor held(const Entry& e, const Tensor& bucket) const { return of_unit(e, bucket).flat(e.held.first, e.held.count); }
  void reduce(std::size_t bucket, int microbatch);
  void join(Piece& piece);
  /// Adds the reduced gradients of micro-batches before this one to the sum.
  void take(std::size_t bucket, int before);

  std::vector<Entry> entries_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> holders_;  ///< of each place in memory_.turns: the bucket that lies there
  comm::Communicator& group_;
  ops::Ops& ops_;
  GradientOptions options_;
  std::optional<arch::TokenTable> table_;  ///< where the rank has one
  std::optional<TiedMatrix> tied_;
  const GradientMemory& memory_;
  int microbatches_;
  double exposed_seconds_ = 0, overlappable_seconds_ = 0;
  std::function<void(UnitIndex, const Tensor&)> first_watch_;
  double first_ready_ = 0;  ///< now_seconds() of the step's first complete gradient; 0: there is none yet
};

}  // namespace lockstep::parallel
