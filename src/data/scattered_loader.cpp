#include "data/scattered_loader.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/timer.h"

namespace lockstep::data {
namespace {

std::int64_t taught(const Batch& batch) {
  return std::ranges::count_if(elements<std::int32_t>(batch.targets), [](std::int32_t id) { return id >= 0; });
}

}  // namespace

ScatteredLoader::ScatteredLoader(const TokenFile& file, const Sampler& sampler, const LoaderShape& shape,
                                 comm::Communicator& group, int workers)
    : shape_(shape), group_(group) {
  ensure(shape.ranks % group.size() == 0, "all groups have one size");
  if (group.rank() != 0) return;
  LoaderShape whole = shape;  // the group's micro-batches lie one after another
  whole.microbatches *= group.size();
  whole.rank /= group.size();
  whole.ranks /= group.size();
  reader_.emplace(file, sampler, whole, workers);
}

void ScatteredLoader::declare(Arena& arena) {
  const std::int64_t mine = multiply(shape_.microbatches, multiply(shape_.samples, shape_.positions));
  for (Slot& slot : slots_) {
    arena.declare(slot.tokens, "tokens", Shape{mine}, DType::i32);
    arena.declare(slot.targets, "targets", Shape{mine}, DType::i32);
  }
  if (!reader_) return;
  reader_->declare(arena);
  arena.declare(all_tokens_, "group.tokens", Shape{mine * group_.size()}, DType::i32);
  arena.declare(all_targets_, "group.targets", Shape{mine * group_.size()}, DType::i32);
}

void ScatteredLoader::start(std::uint64_t step, std::uint64_t next_sample) {
  step_ = brought_ = step;
  next_sample_ = next_sample;
  if (reader_) reader_->start(step, next_sample);
  const std::int64_t rows = shape_.samples * shape_.positions;
  for (Slot& slot : slots_) {
    for (std::int64_t m = 0; m < shape_.microbatches; ++m) {
      Batch& batch = slot.batches.emplace_back();
      batch.tokens = slot.tokens.flat(m * rows, rows);
      batch.targets = slot.targets.flat(m * rows, rows);
      batch.samples = shape_.samples;
      batch.positions = shape_.positions;
    }
  }
}

void ScatteredLoader::collect(const StepBatches& read, Tensor Batch::* member, const Tensor& to) const {
  std::byte* at = to.data;
  for (const Batch& batch : read.microbatches) {
    const Tensor& from = batch.*member;
    std::memcpy(at, from.data, from.bytes());
    at += from.bytes();
  }
}

void ScatteredLoader::bring() {
  if (reader_) {
    const StepBatches read = reader_->next();
    collect(read, &Batch::tokens, all_tokens_);
    collect(read, &Batch::targets, all_targets_);
  }
  Slot& slot = slot_of(brought_++);
  slot.coming_tokens = group_.host().scatter(slot.tokens, all_tokens_, 0);
  slot.coming_targets = group_.host().scatter(slot.targets, all_targets_, 0);
}

StepBatches ScatteredLoader::next() {
  const ScopedTime waited(waited_);
  if (brought_ == step_) bring();
  Slot& slot = slot_of(step_);
  slot.coming_tokens.wait();
  slot.coming_targets.wait();
  bring();
  StepBatches result{step_++, slot.batches, 0};
  for (std::int64_t m = 0; m < shape_.microbatches; ++m) {
    Batch& batch = slot.batches[static_cast<std::size_t>(m)];
    batch.first_sample = shape_.first_sample(next_sample_, m);
    batch.target_count = taught(batch);
    result.target_count += batch.target_count;
  }
  next_sample_ += static_cast<std::uint64_t>(shape_.global_batch());
  return result;
}

ScatteredWindows::ScatteredWindows(const TokenFile& file, const Sampler& sampler, std::int64_t samples, std::int64_t positions,
                                   std::int64_t limit, comm::Communicator& group)
    : group_(group), reader_(file, sampler, samples, positions, limit) {
  batch_.samples = samples;
  batch_.positions = positions;
  if (reads()) indices_.resize(static_cast<std::size_t>(group.size()));
}

void ScatteredWindows::declare(Arena& arena) {
  const std::int64_t mine = multiply(batch_.samples, batch_.positions);
  arena.declare(batch_.tokens, "window.tokens", Shape{mine}, DType::i32);
  arena.declare(batch_.targets, "window.targets", Shape{mine}, DType::i32);
  if (!reads()) return;
  reader_.declare(arena);
  arena.declare(all_tokens_, "group.window.tokens", Shape{mine * group_.size()}, DType::i32);
  arena.declare(all_targets_, "group.window.targets", Shape{mine * group_.size()}, DType::i32);
}

const Batch& ScatteredWindows::read(std::int64_t index) {
  comm::Communicator& host = group_.host();
  host.gather(view(std::span(indices_), Shape{std::ssize(indices_)}), view(std::span(&index, 1), Shape{1}), 0).wait();
  std::size_t at = 0;
  for (const std::int64_t asked : indices_) {
    const Batch& read = reader_.read(asked);
    std::memcpy(all_tokens_.data + at, read.tokens.data, read.tokens.bytes());
    std::memcpy(all_targets_.data + at, read.targets.data, read.targets.bytes());
    at += read.tokens.bytes();
  }
  host.scatter(batch_.tokens, all_tokens_, 0).wait();
  host.scatter(batch_.targets, all_targets_, 0).wait();
  batch_.first_sample = static_cast<std::uint64_t>(index * batch_.samples);
  batch_.target_count = taught(batch_);
  return batch_;
}

}  // namespace lockstep::data
