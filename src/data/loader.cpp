#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/timer.h"

namespace lockstep::data {
namespace {

void declare_batch(Arena& arena, Batch& batch, const std::string& name, bool grouped) {
  const Shape shape{multiply(batch.samples, batch.positions)};
  arena.declare(batch.tokens, name + ".tokens", shape, DType::i32);
  arena.declare(batch.targets, name + ".targets", shape, DType::i32);
  if (grouped) arena.declare(batch.references, name + ".references", Shape{batch.samples}, DType::f64);
}

// Fills rows first_sample, first_sample + 1, ...; `rows` of them are windows, the others are ignored.
void fill(Batch& batch, const TokenFile& file, const Sampler& sampler, std::uint64_t first_sample, std::int64_t rows) {
  const std::span<std::int32_t> tokens = elements<std::int32_t>(batch.tokens);
  const std::span<std::int32_t> targets = elements<std::int32_t>(batch.targets);
  const auto length = static_cast<std::size_t>(batch.positions);
  batch.target_count = 0;
  for (std::int64_t row = 0; row < batch.samples; ++row) {
    const auto x = tokens.subspan(static_cast<std::size_t>(row) * length, length);
    const auto y = targets.subspan(static_cast<std::size_t>(row) * length, length);
    if (row >= rows) {
      std::fill(x.begin(), x.end(), 0);
      std::fill(y.begin(), y.end(), -1);
      continue;
    }
    const Window window = sampler.window(first_sample + static_cast<std::uint64_t>(row));
    if (batch.references) elements<double>(batch.references)[static_cast<std::size_t>(row)] = window.reference;
    const auto there = static_cast<std::size_t>(window.length), known = static_cast<std::size_t>(window.known);
    file.read(window.begin, x.first(there));
    std::copy(x.begin() + 1, x.begin() + window.length, y.begin());
    file.read(window.begin + window.length, y.subspan(there - 1, 1));
    std::fill(x.begin() + window.length, x.end(), 0);
    std::fill(y.begin() + window.length, y.end(), -1);
    std::fill_n(y.begin(), window.known, -1);
    batch.target_count += file.apply_mask(window.begin + 1 + window.known, y.subspan(known, there - known));
  }
  batch.first_sample = first_sample;
  if (batch.references) batch.target_count = std::min(rows, batch.samples) / sampler.together();
}

}  // namespace

Loader::Loader(const TokenFile& file, Sampler sampler, LoaderShape shape, int workers)
    : file_(file), sampler_(std::move(sampler)), shape_(shape), slots_(static_cast<std::size_t>(workers) + 1) {
  for (Slot& slot : slots_) {
    slot.batches.resize(static_cast<std::size_t>(shape_.microbatches));
    for (Batch& batch : slot.batches) {
      batch.samples = shape_.samples;
      batch.positions = shape_.positions;
    }
  }
}

void Loader::declare(Arena& arena) {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    for (std::size_t m = 0; m < slots_[slot].batches.size(); ++m) {
      declare_batch(arena, slots_[slot].batches[m], fmt::format("batch{}.{}", slot, m), sampler_.grouped());
    }
  }
}

void Loader::start(std::uint64_t step, std::uint64_t next_sample) {
  ensure(!started_, "a loader is started once");
  ensure(static_cast<bool>(slots_[0].batches.front().tokens), "the loader's memory is committed");
  first_ = next_ = kept_ = step;
  first_sample_ = next_sample;
  started_ = true;
  for (std::size_t worker = 0; worker + 1 < slots_.size(); ++worker)
    workers_.push_back(start_thread("loader", [this, step, worker](const std::stop_token& stop) { run(step + worker, stop); }));
}

void Loader::make(Slot& slot, std::uint64_t step) {
  slot.target_count = 0;
  const std::uint64_t next = first_sample_ + (step - first_) * static_cast<std::uint64_t>(shape_.global_batch());
  for (std::int64_t m = 0; m < shape_.microbatches; ++m) {
    Batch& batch = slot.batches[static_cast<std::size_t>(m)];
    fill(batch, file_, sampler_, shape_.first_sample(next, m), shape_.samples);
    slot.target_count += batch.target_count;
  }
}

void Loader::run(std::uint64_t first, const std::stop_token& stop) {
  for (std::uint64_t step = first;; step += slots_.size() - 1) {
    Slot& slot = slot_of(step);
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return step < kept_ + slots_.size(); })) return;
      slot.ready = false;
    }
    std::exception_ptr failure;
    try {
      make(slot, step);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      slot.step = step;
      slot.ready = true;
      slot.failure = failure;
    }
    changed_.notify_all();
    if (failure) return;
  }
}

StepBatches Loader::next() {
  ensure(started_, "the loader was started");
  const ScopedTime waited(waited_);
  Slot& slot = slot_of(next_);
  if (workers_.empty()) {
    make(slot, next_);
  } else {
    std::unique_lock lock(mutex_);
    kept_ = next_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return slot.ready && slot.step == next_; });
    if (slot.failure) std::rethrow_exception(slot.failure);
  }
  return {next_++, slot.batches, slot.target_count};
}

WindowReader::WindowReader(const TokenFile& file, Sampler sampler, std::int64_t samples, std::int64_t positions,
                           std::int64_t limit)
    : file_(file), sampler_(std::move(sampler)), limit_(limit) {
  ensure(limit >= 1, "there is a window to read");
  batch_.samples = samples;
  batch_.positions = positions;
}

void WindowReader::declare(Arena& arena) { declare_batch(arena, batch_, "window", sampler_.grouped()); }

std::int64_t WindowReader::batches() const { return div_up(limit_, batch_.samples); }

const Batch& WindowReader::read(std::int64_t index) {
  ensure(index >= 0 && index < batches(), "the batch exists");
  const std::int64_t first = index * batch_.samples;
  fill(batch_, file_, sampler_, static_cast<std::uint64_t>(first), std::min(batch_.samples, limit_ - first));
  return batch_;
}

Sampler evaluation_sampler(const TokenFile& file, std::int64_t positions, std::uint64_t seed, const std::string& split,
                           EvaluationWindows windows) {
  return Sampler({.order = windows.packed ? Order::partition : Order::random,
                  .seed = seed,
                  .name = "data.evaluation." + split,
                  .tokens = file.tokens(),
                  .positions = positions,
                  .global_batch = windows.together,
                  .together = windows.together,
                  .references = std::move(windows.references)});
}

Sampler whole_file_sampler(const TokenFile& file, std::int64_t positions, std::int64_t stride) {
  return Sampler({.order = Order::sequential,
                  .seed = 0,
                  .name = "data.whole",
                  .tokens = file.tokens(),
                  .positions = positions,
                  .stride = stride,
                  .global_batch = 1});
}

}  // namespace lockstep::data
