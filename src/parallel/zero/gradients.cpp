#include "parallel/zero/gradients.h"

#include <algorithm>

#include "base/error.h"
#include "base/timer.h"

namespace lockstep::parallel {

void GradientMemory::declare(const GradientArenas& arenas, const std::vector<layout::Unit>& units, const GradientWork& work) {
  cut = work.cut;
  std::int64_t elements = 0, needed = 0;
  for (const layout::Unit& unit : units) {
    elements += unit.elements;
    needed += cut.held(unit).count;
  }
  arenas.gradients.declare(sum, "units", Shape{work.each_microbatch() ? needed : elements}, DType::f32);
  fresh.resize(work.each_microbatch() ? static_cast<std::size_t>(work.open_microbatches) : 0);
  for (Tensor& microbatch : fresh) arenas.gradients.declare(microbatch, "micro-batch", Shape{elements}, DType::f32);
  if (work.tied.rank() > 0) tied.emplace().declare(arenas, work.tied, work.tokens, work.ranks);
}

ZeroGradients::ZeroGradients(const std::vector<layout::Unit>& units, const arch::UnitMap& map, int microbatches,
                             const GradientMemory& memory, comm::Communicator& group, ops::Ops& ops,
                             const GradientOptions& options)
    : entries_(units.size()),
      group_(group),
      ops_(ops),
      options_(options),
      table_(arch::token_table(units, map)),
      memory_(memory),
      microbatches_(microbatches) {
  if (memory.tied) tied_.emplace(*memory.tied, group, ops);
  lay_out(units, arch::backward_order(map));
  for (Bucket& bucket : buckets_) {
    bucket.pieces.resize(std::max<std::size_t>(1, memory.fresh.size()));
    for (Piece& piece : bucket.pieces) piece.reductions.resize(scatters() ? bucket.units.size() : 1);
  }
}

void ZeroGradients::lay_out(const std::vector<layout::Unit>& units, const std::vector<UnitIndex>& order) {
  ensure(order.size() == units.size(), "every unit has its place in the order of backward");
  ensure(memory_.cut.whole() || memory_.cut.parts * memory_.cut.copies == group_.size(), "every rank needs its part of the sum");
  constexpr std::int64_t element_bytes = 4;
  std::int64_t needed = 0;
  for (const UnitIndex index : order) {
    if (buckets_.empty() || buckets_.back().elements * element_bytes >= options_.bucket_bytes)
      buckets_.push_back({.first = elements_});
    const layout::Unit& unit = units[static_cast<std::size_t>(index.value)];
    Entry& e = entry(index);
    e.first = elements_;
    e.elements = unit.elements;
    e.held = memory_.cut.held(unit);
    e.held_first = needed;
    e.bucket = buckets_.size() - 1;
    for (int part = 0; scatters() && part < group_.size(); ++part)
      e.counts.push_back(layout::range_of(unit, part, group_.size()).count);
    buckets_.back().elements += e.elements;
    buckets_.back().units.push_back(index);
    elements_ += e.elements;
    needed += e.held.count;
  }
  ensure((each_microbatch() ? needed : elements_) == memory_.sum.elements(), "gradients have the memory of these units");
}

Tensor ZeroGradients::held_sum(const Entry& e) const {
  return each_microbatch() ? memory_.sum.flat(e.held_first, e.held.count) : held(e, memory_.sum);
}

void ZeroGradients::begin(int microbatches) {
  ensure(microbatches == microbatches_, "a step has the micro-batches that the store was declared for");
  exposed_seconds_ = first_ready_ = 0;
  for (Entry& e : entries_) e.opened = e.closed = 0;
  for (Bucket& bucket : buckets_) {
    bucket.taken = 0;
    for (Piece& piece : bucket.pieces) piece.closed = 0;
  }
  if (tied_) tied_->begin();
}

OpenGradient ZeroGradients::open(UnitIndex unit, Microbatch microbatch) {
  Entry& e = entry(unit);
  ensure(microbatch.value == e.opened, "gradients accumulate in the order of micro-batches");
  ++e.opened;
  if (each_microbatch()) {
    const int places = static_cast<int>(memory_.fresh.size());
    ensure(e.opened - e.closed <= places, "no more micro-batches are open than the store was made for");
    take(buckets_[e.bucket], microbatch.value - places + 1);
  }
  return {buffer(microbatch).flat(e.first, e.elements), !each_microbatch() && microbatch.value > 0};
}

void ZeroGradients::expect(const Tensor& tokens) {
  if (tied_) tied_->expect(tokens);
}

Tensor ZeroGradients::open_rows(Microbatch microbatch) {
  if (tied_) return tied_->open_rows();
  const Entry& e = entry(table_.unit);
  ensure(microbatch.value + 1 == e.opened, "rows are added while the embedding's unit is open");
  const Tensor rows = buffer(microbatch).flat(e.first + table_.offset, table_.shape.elements()).reshape(table_.shape);
  if (each_microbatch() || microbatch.value == 0) ops_.elementwise().zero(rows);
  return rows;
}

void ZeroGradients::close(UnitIndex unit, Microbatch microbatch) {
  Entry& e = entry(unit);
  ensure(microbatch.value == e.closed && e.closed < e.opened, "what is closed was opened, and is closed in order");
  ++e.closed;
  if (!each_microbatch() && e.closed < microbatches_) return;
  if (first_ready_ == 0) first_ready_ = now_seconds();
  Bucket& bucket = buckets_[e.bucket];
  Piece& piece = bucket.pieces[static_cast<std::size_t>(microbatch.value) % bucket.pieces.size()];
  if (++piece.closed == std::ssize(bucket.units)) reduce(bucket, piece, buffer(microbatch));
}

void ZeroGradients::reduce(const Bucket& bucket, Piece& piece, const Tensor& from) {
  if (scatters()) {
    for (std::size_t i = 0; i < bucket.units.size(); ++i) {
      const Entry& e = entry(bucket.units[i]);
      piece.reductions[i] = group_.reduce_scatter(held(e, from), from.flat(e.first, e.elements), e.counts, comm::Reduction::sum);
    }
  } else {
    piece.reductions.front() = group_.all_reduce(from.flat(bucket.first, bucket.elements), comm::Reduction::sum);
  }
  if (!options_.overlap) join(piece);
}

void ZeroGradients::join(Piece& piece) {
  const ScopedTime exposed(exposed_seconds_);
  for (comm::Request& reduction : piece.reductions) reduction.join(ops_.stream());
}

// A reduced micro-batch goes to the sum before its place is used again.
void ZeroGradients::take(Bucket& bucket, int before) {
  while (bucket.taken < before) {
    const std::size_t place = static_cast<std::size_t>(bucket.taken) % bucket.pieces.size();
    Piece& piece = bucket.pieces[place];
    ensure(piece.closed == std::ssize(bucket.units), "a micro-batch is complete before its place is used again");
    piece.closed = 0;
    join(piece);
    const bool first = bucket.taken++ == 0;
    const auto add = [&](const Tensor& sum, const Tensor& fresh) {
      first ? ops_.elementwise().cast(sum, fresh) : ops_.elementwise().add(sum, fresh);
    };
    const Tensor& fresh = memory_.fresh[place];
    if (memory_.cut.whole()) {
      add(memory_.sum.flat(bucket.first, bucket.elements), fresh.flat(bucket.first, bucket.elements));
    } else {
      for (const UnitIndex unit : bucket.units) add(held_sum(entry(unit)), held(entry(unit), fresh));
    }
  }
}

void ZeroGradients::finish() {
  finish_apart();
  if (!tied_) return;
  tied_->reduce_rows();
  const Shard h = shard(table_.unit);
  tied_->add_rows(h.gradient, h.first);
}

void ZeroGradients::finish_apart() {
  overlappable_seconds_ = now_seconds() - first_ready_ - exposed_seconds_;
  for (const Entry& e : entries_) ensure(e.closed == microbatches_, "every unit got the gradient of every micro-batch");
  for (Bucket& bucket : buckets_) {
    if (each_microbatch()) {
      take(bucket, microbatches_);
    } else {
      join(bucket.pieces.front());
    }
  }
}

GradientStore::Shard ZeroGradients::shard(UnitIndex unit) {
  const Entry& e = entry(unit);
  return {held_sum(e), e.held.first};
}

}  // namespace lockstep::parallel
