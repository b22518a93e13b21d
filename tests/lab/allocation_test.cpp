// A step takes its memory once: from the third step on nothing large is allocated and nothing is kept.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>

#include "lab/step/step_shapes.h"
#include "support/layout_run.h"
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

/// What a step does differs by family and storage type.
struct Case {
  const char* name;
  bool llama;
  parallel::WeightStorage weights;
};

class Steps : public testing::TestWithParam<Case> {
 protected:
  static train::EngineConfig config() {
    StepShape shape = step_shape("tiny");
    shape.llama = GetParam().llama;
    train::EngineConfig config;
    config.model = model_of(shape);
    config.model.dropout = 0.1F;
    config.weights = GetParam().weights;
    config.samples = 4;
    config.positions = shape.positions;
    config.plan.microbatches = 2;
    return config;
  }
};

TEST_P(Steps, TakeNoMemoryAfterTheSecond) {
  support::Machine machine(2);
  const auto engine = support::make_engine(config(), machine);
  const support::Batches batches(2, config().samples, config().positions, config().model.vocabulary);
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

// Gathers and reductions are records of a few bytes, which go when the ranks have done them.
TEST(Allocation, StepsOfCutStateTakeNoMemoryAfterTheThird) {
  for (int level = 0; level <= 3; ++level) {
    const support::LayoutRun run = support::at_level({.layout = "dp=2,gas=2", .model = model_of(step_shape("tiny"))}, level);
    support::on_layout(run, [&](support::LayoutRank& rank) {
      comm::Communicator& world = rank.engine().groups().all();
      rank.engine().initialise();
      const support::StepBatches batches = rank.batches(0);
      for (int step = 0; step < 3; ++step) rank.step(batches, step);
      world.barrier();
      watch().largest = 0;
      const std::ptrdiff_t live = watch().live;
      world.barrier();
      for (int step = 3; step < 7; ++step) rank.step(batches, step);
      world.barrier();
      EXPECT_LE(watch().largest.load(), large) << level;
      EXPECT_LE(watch().live.load(), live + 4096) << level;
      world.barrier();
    });
  }
}

// What the ledger says is what a process grows by.
TEST_P(Steps, TakeWhatTheLedgerSays) {
  constexpr std::int64_t page = 4096;
  train::EngineConfig filling = config();
  filling.samples = 64;
  support::Machine machine(1);
  support::RankEngine engine(filling, *machine.runtime, *machine.ops, *machine.world);
  const std::int64_t promised = engine.ledger().total() - machine.ops->workspace_bytes();  // that was taken already
  const std::int64_t before = mapped_pages();
  engine.commit();
  const std::int64_t taken = (mapped_pages() - before) * page;
  EXPECT_GE(taken, promised);
  EXPECT_LE(taken, promised + 8 * (2 << 20));  // arenas are whole huge pages
}

INSTANTIATE_TEST_SUITE_P(Allocation, Steps,
                         testing::Values(Case{"gpt2", false, {}}, Case{"llama", true, {}},
                                         Case{"gpt2_bf16", false, support::bf16_with_masters},
                                         Case{"llama_bf16", true, support::bf16_with_masters},
                                         Case{"llama_bf16_alone", true, support::bf16_alone}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep::lab
