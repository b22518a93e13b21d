#include "parallel/zero/gradients.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/timer.h"

namespace lockstep::parallel {

std::vector<GradientBucket> gradient_buckets(const std::vector<layout::Unit>& units, const std::vector<UnitIndex>& order,
                                             std::int64_t bytes) {
  constexpr std::int64_t element_bytes = 4;
  std::vector<GradientBucket> buckets;
  std::int64_t first = 0;
  for (const UnitIndex unit : order) {
    if (buckets.empty() || buckets.back().elements * element_bytes >= bytes) buckets.push_back({.first = first});
    const std::int64_t elements = units[static_cast<std::size_t>(unit.value)].elements;
    buckets.back().elements += elements;
    buckets.back().units.push_back(unit);
    first += elements;
  }
  return buckets;
}

void GradientMemory::declare(const GradientArenas& arenas, const std::vector<layout::Unit>& units, const GradientWork& work) {
  cut = work.cut;
  order = work.order;
  std::int64_t elements = 0, needed = 0;
  const bool apart = work.each_microbatch() || work.in_turns();
  std::vector<Arena::Part> layers;
  for (const UnitIndex index : order) {
    const layout::Unit& unit = units[static_cast<std::size_t>(index.value)];
    const std::int64_t held = cut.held(unit).count;
    elements += unit.elements;
    needed += held;
    layers.push_back({unit.name, (apart ? held : unit.elements) * 4});
  }
  std::int64_t received = 0;
  if (work.tied) tied_unit = work.tied->unit;
  if (work.tied && work.tied->side == TiedSide::embedding) {
    const layout::Unit& unit = units[static_cast<std::size_t>(tied_unit.value)];
    received = cut.held(unit).count;
    layers.push_back({unit.name, received * 4});
  }
  arenas.gradients.declare(sum, "gradients", Shape{(apart ? needed : elements) + received}, DType::f32);
  arenas.gradients.divide("gradients", layers);
  if (work.in_turns()) {
    std::array<std::int64_t, 2> largest{};
    const std::vector<GradientBucket> buckets = gradient_buckets(units, work.order, work.bucket_bytes);
    for (std::size_t b = 0; b < buckets.size(); ++b) largest[b % 2] = std::max(largest[b % 2], buckets[b].elements);
    turns.resize(std::min<std::size_t>(2, buckets.size()));
    for (std::size_t i = 0; i < turns.size(); ++i) arenas.gradients.declare(turns[i], "buckets", Shape{largest[i]}, DType::f32);
  } else if (work.each_microbatch()) {
    fresh.resize(static_cast<std::size_t>(work.open_microbatches));
    for (Tensor& microbatch : fresh) arenas.gradients.declare(microbatch, "micro-batch", Shape{elements}, DType::f32);
  }
  if (work.tied) tied.emplace().declare(arenas, {work.tied->shape, work.tokens, work.ranks, work.tied->side});
}

std::optional<arch::TokenTable> held_table(const std::vector<layout::Unit>& units, const arch::UnitMap& map) {
  const UnitIndex unit = map.tied.value >= 0 ? map.tied : map.embedding;
  if (units[static_cast<std::size_t>(unit.value)].parameters.empty()) return std::nullopt;
  return arch::token_table(units, map);
}

ZeroGradients::ZeroGradients(const std::vector<layout::Unit>& units, const arch::UnitMap& map, int microbatches,
                             const GradientMemory& memory, const GradientGroups& groups, ops::Ops& ops,
                             const GradientOptions& options)
    : entries_(units.size()),
      holders_(memory.turns.size()),
      group_(groups.replicas),
      ops_(ops),
      options_(options),
      table_(held_table(units, map)),
      memory_(memory),
      microbatches_(microbatches) {
  if (memory.tied) tied_.emplace(*memory.tied, group_, ops, groups.tied, table_->first_token);
  lay_out(units);
  for (std::size_t place = 0; place < holders_.size(); ++place) holders_[place] = place;
  for (Bucket& bucket : buckets_) {
    bucket.pieces.resize(std::max<std::size_t>(1, memory.fresh.size()));
    for (Piece& piece : bucket.pieces) piece.reductions.resize(scatters() ? bucket.units.size() : 1);
  }
}

void ZeroGradients::lay_out(const std::vector<layout::Unit>& units) {
  ensure(memory_.cut.whole() || memory_.cut.parts * memory_.cut.copies == group_.size(), "every rank needs its part of the sum");
  std::int64_t elements = 0, needed = 0;
  for (GradientBucket& bucket : gradient_buckets(units, memory_.order, options_.bucket_bytes)) {
    for (const UnitIndex index : bucket.units) {
      const layout::Unit& unit = units[static_cast<std::size_t>(index.value)];
      Entry& e = entry(index);
      e.first = elements;
      e.elements = unit.elements;
      e.held = memory_.cut.held(unit);
      e.sum_first = reduces_each_microbatch() ? needed : elements + e.held.first;
      e.bucket = buckets_.size();
      e.gaps = layout::gaps_of(unit);
      for (int part = 0; scatters() && part < group_.size(); ++part)
        e.counts.push_back(layout::range_of(unit, part, group_.size()).count);
      elements += e.elements;
      needed += e.held.count;
    }
    buckets_.push_back({std::move(bucket)});
  }
  std::int64_t end = reduces_each_microbatch() ? needed : elements;
  if (memory_.tied && memory_.tied->side == TiedSide::embedding) {
    Entry& e = entry(memory_.tied_unit);
    e.held = memory_.cut.held(units[static_cast<std::size_t>(memory_.tied_unit.value)]);
    e.sum_first = end;
    end += e.held.count;
  }
  ensure(end == memory_.sum.elements(), "gradients have the memory of these units");
}

Tensor ZeroGradients::held_sum(const Entry& e) const { return memory_.sum.flat(e.sum_first, e.held.count); }

Tensor ZeroGradients::buffer(std::size_t bucket, int microbatch) const {
  const auto& [first, elements, units] = static_cast<const GradientBucket&>(buckets_[bucket]);
  if (in_turns()) return memory_.turns[bucket % memory_.turns.size()].flat(0, elements);
  const Tensor& all =
      each_microbatch() ? memory_.fresh[static_cast<std::size_t>(microbatch) % memory_.fresh.size()] : memory_.sum;
  return all.flat(first, elements);
}

void ZeroGradients::claim(std::size_t bucket) {
  std::size_t& holder = holders_[bucket % holders_.size()];
  const Bucket& there = buckets_[holder];
  const bool complete = there.pieces.front().closed == std::ssize(there.units);
  ensure(complete || holder == bucket || there.pieces.front().closed == 0, "buckets are open one after another");
  if (complete) take(holder, there.taken + 1);
  holder = bucket;
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
  if (in_turns()) {
    claim(e.bucket);
    for (const layout::Range& gap : e.gaps)  // which have what another unit left there
      ops_.elementwise().zero(of_unit(e, buffer(e.bucket, microbatch.value)).flat(gap.first, gap.count));
  } else if (each_microbatch()) {
    const int places = static_cast<int>(memory_.fresh.size());
    ensure(e.opened - e.closed <= places, "no more micro-batches are open than the store was made for");
    take(e.bucket, microbatch.value - places + 1);
  }
  return {of_unit(e, buffer(e.bucket, microbatch.value)), !reduces_each_microbatch() && microbatch.value > 0};
}

void ZeroGradients::expect(const Tensor& tokens) {
  if (tied_) tied_->expect(tokens);
}

Tensor ZeroGradients::open_rows(Microbatch microbatch) {
  if (tied_) return tied_->open_rows();
  ensure(table_.has_value(), "rows are added where the token table is");
  const Entry& e = entry(table_->unit);
  ensure(microbatch.value + 1 == e.opened, "rows are added while the embedding's unit is open");
  const Tensor flat = of_unit(e, buffer(e.bucket, microbatch.value));
  const Tensor rows = flat.flat(table_->offset, table_->shape.elements()).reshape(table_->shape);
  if (reduces_each_microbatch() || microbatch.value == 0) ops_.elementwise().zero(rows);
  return rows;
}

void ZeroGradients::close(UnitIndex unit, Microbatch microbatch) {
  Entry& e = entry(unit);
  ensure(microbatch.value == e.closed && e.closed < e.opened, "what is closed was opened, and is closed in order");
  ++e.closed;
  if (first_watch_ && microbatch.value == 0) first_watch_(unit, of_unit(e, buffer(e.bucket, 0)));
  if (!reduces_each_microbatch() && e.closed < microbatches_) return;
  if (first_ready_ == 0) first_ready_ = now_seconds();
  Bucket& bucket = buckets_[e.bucket];
  Piece& piece = bucket.pieces[static_cast<std::size_t>(microbatch.value) % bucket.pieces.size()];
  if (++piece.closed == std::ssize(bucket.units)) reduce(e.bucket, microbatch.value);
}

// A first micro-batch's part goes straight to the sum.
void ZeroGradients::reduce(std::size_t index, int microbatch) {
  const Bucket& bucket = buckets_[index];
  Piece& piece = buckets_[index].pieces[static_cast<std::size_t>(microbatch) % bucket.pieces.size()];
  const Tensor from = buffer(index, microbatch);
  if (scatters()) {
    for (std::size_t i = 0; i < bucket.units.size(); ++i) {
      const Entry& e = entry(bucket.units[i]);
      const Tensor to = reduces_each_microbatch() && microbatch == 0 ? held_sum(e) : held(e, from);
      piece.reductions[i] =
          group_.moving(comm::Purpose::gradients).reduce_scatter(to, of_unit(e, from), e.counts, comm::Reduction::sum);
    }
  } else {
    piece.reductions.front() = group_.moving(comm::Purpose::gradients).all_reduce(from, comm::Reduction::sum);
  }
  if (!options_.overlap) join(piece);
}

void ZeroGradients::join(Piece& piece) {
  const ScopedTime exposed(exposed_seconds_);
  for (comm::Request& reduction : piece.reductions) reduction.join(ops_.stream());
}

// A reduced micro-batch goes to the sum before its place is used again.
void ZeroGradients::take(std::size_t index, int before) {
  Bucket& bucket = buckets_[index];
  while (bucket.taken < before) {
    Piece& piece = bucket.pieces[static_cast<std::size_t>(bucket.taken) % bucket.pieces.size()];
    ensure(piece.closed == std::ssize(bucket.units), "a micro-batch is complete before its place is used again");
    piece.closed = 0;
    join(piece);
    const Tensor fresh = buffer(index, bucket.taken);
    const bool first = bucket.taken++ == 0;
    if (first && scatters()) continue;  // it is there
    const auto add = [&](const Tensor& sum, const Tensor& part) {
      first ? ops_.elementwise().cast(sum, part) : ops_.elementwise().add(sum, part);
    };
    if (memory_.cut.whole()) {
      add(memory_.sum.flat(bucket.first, bucket.elements), fresh);
    } else {
      for (const UnitIndex unit : bucket.units) add(held_sum(entry(unit)), held(entry(unit), fresh));
    }
  }
}

void ZeroGradients::finish() {
  finish_apart();
  if (!tied_) return;
  tied_->reduce_rows();
  const Shard h = shard(memory_.tied_unit);
  tied_->exchange(h.gradient);
  tied_->add_rows(h.gradient, h.first);
}

void ZeroGradients::finish_apart() {
  overlappable_seconds_ = now_seconds() - first_ready_ - exposed_seconds_;
  for (const UnitIndex unit : memory_.order)
    ensure(entry(unit).closed == microbatches_, "every unit got the gradient of every micro-batch");
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (reduces_each_microbatch()) {
      take(b, microbatches_);
    } else {
      join(buckets_[b].pieces.front());
    }
  }
}

GradientStore::Shard ZeroGradients::shard(UnitIndex unit) {
  const Entry& e = entry(unit);
  return {held_sum(e), e.held.first};
}

}  // namespace lockstep::parallel
