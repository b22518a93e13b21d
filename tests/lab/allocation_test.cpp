// A step takes its memory once: from the third step on nothing large is allocated and nothing is kept.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>

#include "lab/step_shapes.h"
#include "support/tiny_engine.h"

namespace {

// What operator new of this program has handed out.
struct Watch {
  std::atomic<std::size_t> largest{0}, calls{0};
  std::atomic<std::ptrdiff_t> live{0};
};
Watch& watch() {
  static Watch instance;
  return instance;
}

void* watched(void* memory, std::size_t size) {
  if (memory == nullptr) throw std::bad_alloc();
  Watch& w = watch();
  ++w.calls;
  w.live += static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  for (std::size_t seen = w.largest; size > seen && !w.largest.compare_exchange_weak(seen, size);) {
  }
  return memory;
}

void released(void* memory) noexcept {
  if (memory == nullptr) return;
  watch().live -= static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return watched(std::malloc(size), size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  return watched(std::aligned_alloc(to, (size + to - 1) / to * to), size);
}
void operator delete(void* memory) noexcept { released(memory); }
void operator delete(void* memory, std::size_t) noexcept { released(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { released(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { released(memory); }

namespace lockstep::lab {
namespace {

constexpr std::size_t large = std::size_t{64} << 10;

// Pages that the process has mapped, by whatever means.
std::int64_t mapped_pages() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages;
  return pages;
}

TEST(Allocation, TheWatchSeesAllocations) {
  watch().largest = 0;
  const std::ptrdiff_t before = watch().live;
  auto block = std::make_unique<std::vector<char>>(3 * large);
  EXPECT_GE(watch().largest.load(), 3 * large);
  EXPECT_GE(watch().live - before, static_cast<std::ptrdiff_t>(3 * large));
  block.reset();
  EXPECT_EQ(watch().live.load(), before);
}

TEST(Allocation, AStepTakesNoMemoryAfterTheSecond) {
  const StepShape& shape = step_shape("tiny");
  train::EngineConfig config;
  config.model = model_of(shape);
  config.model.dropout = 0.1F;
  config.samples = 4;
  config.positions = shape.positions;
  config.microbatches = 2;
  support::Machine machine(2);
  const auto engine = support::make_engine(config, machine);
  const support::Batches batches(2, config.samples, config.positions, shape.vocabulary);
  for (int step = 0; step < 2; ++step) engine->step(batches.all(), batches.targets(), step, 1e-3);

  watch().largest = 0;
  const std::ptrdiff_t live = watch().live;
  const std::size_t in_use = mallinfo2().uordblks + mallinfo2().hblkhd;
  const std::int64_t pages = mapped_pages();
  for (int step = 2; step < 6; ++step) engine->step(batches.all(), batches.targets(), step, 1e-3);
  EXPECT_LE(watch().largest.load(), large);
  EXPECT_EQ(watch().live.load(), live);
  EXPECT_LE(mallinfo2().uordblks + mallinfo2().hblkhd, in_use + 4096);  // other threads' libraries may keep a little
  EXPECT_LE(mapped_pages(), pages + 16);
}

}  // namespace
}  // namespace lockstep::lab
