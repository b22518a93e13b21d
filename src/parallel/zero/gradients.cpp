#include "parallel/zero/gradients.h"

#include "base/error.h"
#include "base/timer.h"

namespace lockstep::parallel {

ZeroGradients::ZeroGradients(const std::vector<layout::Unit>& units, const std::vector<UnitIndex>& order,
                             comm::Communicator& group, ops::Elementwise& elementwise, const GradientOptions& options)
    : entries_(units.size()), group_(group), elementwise_(elementwise), options_(options) {
  ensure(order.size() == units.size(), "every unit has its place in the order of backward");
  constexpr std::int64_t element_bytes = 4;
  for (const UnitIndex unit : order) {
    if (buckets_.empty() || buckets_.back().elements * element_bytes >= options.bucket_bytes)
      buckets_.push_back({.first = elements_});
    Entry& e = entry(unit);
    e.first = elements_;
    e.elements = units[static_cast<std::size_t>(unit.value)].elements;
    e.bucket = buckets_.size() - 1;
    buckets_.back().elements += e.elements;
    ++buckets_.back().units;
    elements_ += e.elements;
  }
}

void ZeroGradients::declare(Arena& arena, int microbatches) {
  microbatches_ = microbatches;
  arena.declare(sum_, "units", Shape{elements_}, DType::f32);
  if (each_microbatch()) arena.declare(fresh_, "micro-batch", Shape{elements_}, DType::f32);
}

void ZeroGradients::begin(int microbatches) {
  ensure(microbatches == microbatches_, "a step has the micro-batches that the store was declared for");
  exposed_seconds_ = first_ready_ = 0;
  for (Entry& e : entries_) e.opened = 0;
  for (Bucket& bucket : buckets_) bucket.closed = bucket.reduced = bucket.taken = 0;
}

OpenGradient ZeroGradients::open(UnitIndex unit, Microbatch microbatch) {
  Entry& e = entry(unit);
  ensure(microbatch.value == e.opened, "gradients accumulate in the order of micro-batches");
  ++e.opened;
  if (!each_microbatch()) return {sum_.flat(e.first, e.elements), microbatch.value > 0};
  take(buckets_[e.bucket]);
  return {fresh_.flat(e.first, e.elements), false};
}

void ZeroGradients::close(UnitIndex unit, Microbatch microbatch) {
  const Entry& e = entry(unit);
  ensure(microbatch.value + 1 == e.opened, "what is closed was opened");
  if (!each_microbatch() && e.opened < microbatches_) return;
  if (first_ready_ == 0) first_ready_ = now_seconds();
  Bucket& bucket = buckets_[e.bucket];
  if (++bucket.closed == bucket.units) reduce(bucket, each_microbatch() ? fresh_ : sum_);
}

void ZeroGradients::reduce(Bucket& bucket, const Tensor& from) {
  bucket.closed = 0;
  const Tensor part = from.flat(bucket.first, bucket.elements);
  if (options_.overlap) {
    bucket.reduction = group_.all_reduce(part, comm::Reduction::sum);
  } else {
    const ScopedTime exposed(exposed_seconds_);
    group_.all_reduce(part, comm::Reduction::sum).wait();
  }
  if (each_microbatch()) ++bucket.reduced;
}

// A reduced micro-batch goes to the sum before its place is used again.
void ZeroGradients::take(Bucket& bucket) {
  if (bucket.taken == bucket.reduced) return;
  {
    const ScopedTime exposed(exposed_seconds_);
    bucket.reduction.wait();
  }
  const Tensor sum = sum_.flat(bucket.first, bucket.elements), fresh = fresh_.flat(bucket.first, bucket.elements);
  if (bucket.taken++ == 0) {
    elementwise_.cast(sum, fresh);
  } else {
    elementwise_.add(sum, fresh);
  }
}

void ZeroGradients::finish() {
  cover_seconds_ = now_seconds() - first_ready_ - exposed_seconds_;
  for (const Entry& e : entries_) ensure(e.opened == microbatches_, "every unit got the gradient of every micro-batch");
  for (Bucket& bucket : buckets_) {
    if (each_microbatch()) {
      take(bucket);
    } else {
      const ScopedTime exposed(exposed_seconds_);
      bucket.reduction.wait();
    }
  }
}

GradientStore::Shard ZeroGradients::shard(UnitIndex unit) {
  const Entry& e = entry(unit);
  return {sum_.flat(e.first, e.elements), 0};
}

}  // namespace lockstep::parallel
