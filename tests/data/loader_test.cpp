#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "data/support.h"

namespace lockstep::data {
namespace {

constexpr TokenFormat format{.token_bytes = 2, .vocabulary = 50000};

Sampler sampler_of(const TokenFile& file, std::int64_t positions, Order order = Order::random, std::int64_t global_batch = 1) {
  return Sampler({.order = order,
                  .seed = 1337,
                  .name = training_sequence(order),
                  .tokens = file.tokens(),
                  .positions = positions,
                  .global_batch = global_batch});
}

// A loader with its memory, started.
struct Running {
  Running(const TokenFile& file, LoaderShape shape, std::uint64_t step = 0, int workers = 1)
      : arena("data", MemoryKind::data), loader(file, sampler_of(file, shape.positions), shape, workers) {
    loader.declare(arena);
    arena.commit(host_memory(), ledger);
    loader.start(step, step * static_cast<std::uint64_t>(loader.shape().global_batch()));
  }
  Ledger ledger;
  Arena arena;
  Loader loader;
};

struct Reader {
  Reader(const TokenFile& file, Sampler sampler, std::int64_t samples, std::int64_t positions, std::int64_t limit)
      : arena("evaluation", MemoryKind::data), reader(file, std::move(sampler), samples, positions, limit) {
    reader.declare(arena);
    arena.commit(host_memory(), ledger);
  }
  Ledger ledger;
  Arena arena;
  WindowReader reader;
};

std::vector<std::int32_t> values(const Tensor& tensor) {
  const auto span = elements<std::int32_t>(tensor);
  return {span.begin(), span.end()};
}

// The rows that a batch must have, by the sampler and the file alone.
void expect_rows(const Batch& batch, const TokenFile& file, const Sampler& sampler) {
  const std::vector<std::int32_t> tokens = values(batch.tokens), targets = values(batch.targets);
  ASSERT_EQ(tokens.size(), static_cast<std::size_t>(batch.samples * batch.positions));
  std::vector<std::int32_t> window(static_cast<std::size_t>(batch.positions) + 1);
  for (std::int64_t b = 0; b < batch.samples; ++b) {
    file.read(sampler.offset(batch.first_sample + static_cast<std::uint64_t>(b)), window);
    for (std::int64_t t = 0; t < batch.positions; ++t) {
      const auto i = static_cast<std::size_t>(b * batch.positions + t);
      ASSERT_EQ(tokens[i], window[static_cast<std::size_t>(t)]);
      ASSERT_EQ(targets[i], window[static_cast<std::size_t>(t) + 1]);
    }
  }
}

TEST(Loader, StepsComeInOrderWithTheRightRows) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  Running run(file, {.samples = 3, .positions = 17, .microbatches = 2});
  for (std::uint64_t step = 0; step < 50; ++step) {
    const StepBatches batches = run.loader.next();
    ASSERT_EQ(batches.step, step);
    ASSERT_EQ(batches.microbatches.size(), 2U);
    EXPECT_EQ(batches.target_count, 2 * 3 * 17);
    for (std::uint64_t m = 0; m < 2; ++m) {
      EXPECT_EQ(batches.microbatches[m].first_sample, step * 6 + m * 3);
      EXPECT_EQ(batches.microbatches[m].target_count, 3 * 17);
      expect_rows(batches.microbatches[m], file, run.loader.sampler());
    }
    if (step == 20) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the thread runs ahead, not over
  }
}

TEST(Loader, AnyNumberOfWorkersMakesTheSameSteps) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  const LoaderShape shape{.samples = 3, .positions = 17, .microbatches = 2};
  for (const int workers : {0, 2, 3, 7}) {
    Running one(file, shape, 5), several(file, shape, 5, workers);
    EXPECT_EQ(several.arena.bytes(), one.arena.bytes() / 2 * (workers + 1));
    for (int step = 0; step < 40; ++step) {
      const StepBatches a = one.loader.next(), b = several.loader.next();
      ASSERT_EQ(a.step, b.step);
      const std::vector<std::int32_t> before = values(b.microbatches[1].tokens);
      EXPECT_EQ(values(a.microbatches[1].tokens), before);
      if (step % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(values(b.microbatches[1].tokens), before);
    }
  }
}

TEST(Loader, AStepsBatchesHoldUntilTheNextCall) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  Running run(file, {.samples = 4, .positions = 32, .microbatches = 1});
  for (int step = 0; step < 5; ++step) {
    const StepBatches batches = run.loader.next();
    const std::vector<std::int32_t> before = values(batches.microbatches[0].tokens);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(values(batches.microbatches[0].tokens), before);
  }
}

TEST(Loader, RanksShareAStepWithoutOverlap) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  const LoaderShape whole{.samples = 2, .positions = 8, .microbatches = 6};
  Running one(file, whole);
  std::vector<std::unique_ptr<Running>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(
        std::make_unique<Running>(file, LoaderShape{.samples = 2, .positions = 8, .microbatches = 2, .rank = rank, .ranks = 3}));
  }
  for (int step = 0; step < 3; ++step) {
    const StepBatches all = one.loader.next();
    std::size_t m = 0;
    for (const auto& rank : ranks) {
      for (const Batch& batch : rank->loader.next().microbatches) {
        EXPECT_EQ(batch.first_sample, all.microbatches[m].first_sample);
        EXPECT_EQ(values(batch.tokens), values(all.microbatches[m].tokens));
        ++m;
      }
    }
    EXPECT_EQ(m, 6U);
  }
}

TEST(Loader, MaskedTargetsAreMinusOneAndCountNowhere) {
  const Folder folder;
  TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  std::string mask(40000, '\0');
  for (std::size_t i = 0; i < mask.size(); i += 3) mask[i] = '\1';
  const std::string path = folder.write("train.mask.bin", mask);
  file.set_mask(path, std::make_unique<io::MappedFile>(path));
  Running run(file, {.samples = 3, .positions = 17, .microbatches = 2});
  Reader reader(file, evaluation_sampler(file, 16, 1337, "val"), 4, 16, 40);
  const auto counted = [](const Batch& batch) {
    std::int64_t count = 0;
    const std::vector<std::int32_t> tokens = values(batch.tokens), targets = values(batch.targets);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      EXPECT_EQ(targets[i], (tokens[i] + 1) % 3 == 0 ? tokens[i] + 1 : -1);
      count += targets[i] >= 0 ? 1 : 0;
    }
    EXPECT_EQ(batch.target_count, count);
    return count;
  };
  for (int step = 0; step < 5; ++step) {
    const StepBatches batches = run.loader.next();
    EXPECT_EQ(batches.target_count, counted(batches.microbatches[0]) + counted(batches.microbatches[1]));
  }
  EXPECT_GT(counted(reader.reader.read(3)), 0);
}

TEST(Loader, StartsAtAnyStep) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  const LoaderShape shape{.samples = 2, .positions = 8, .microbatches = 3};
  Running from_zero(file, shape);
  for (int step = 0; step < 7; ++step) from_zero.loader.next();
  Running from_seven(file, shape, 7);
  const StepBatches a = from_zero.loader.next(), b = from_seven.loader.next();
  EXPECT_EQ(b.step, 7U);
  for (std::size_t m = 0; m < 3; ++m) EXPECT_EQ(values(a.microbatches[m].tokens), values(b.microbatches[m].tokens));
}

TEST(Loader, CountsItsMemoryAndItsWaiting) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  Running run(file, {.samples = 4, .positions = 16, .microbatches = 2});
  EXPECT_EQ(run.arena.bytes(), 2 * 2 * 2 * 4 * 16 * 4);  // steps, micro-batches, tokens and targets, B, T, bytes
  run.loader.next();
  EXPECT_GT(run.loader.waited_seconds(), 0);
}

TEST(Loader, ThrowsTheThreadsErrorToTheCaller) {
  const Folder folder;
  std::vector<std::uint16_t> ids = counting(20000, 40000);
  for (std::size_t i = 10000; i < 20000; ++i) ids[i] = 60000;
  const TokenFile file(folder.write_ids("train.bin", ids), format);
  for (const int workers : {0, 1, 3}) {
    Running run(file, {.samples = 1, .positions = 8, .microbatches = 1}, 0, workers);
    int steps = 0;
    const std::string text = user_error([&] {
      for (; steps < 100; ++steps) run.loader.next();
    });
    EXPECT_NE(text.find("has id 60000"), std::string::npos) << text;
    // Every step before the damaged one was delivered, and the error stays.
    for (int step = 0; step < steps; ++step) EXPECT_LT(run.loader.sampler().offset(static_cast<std::uint64_t>(step)), 10000 - 8);
    EXPECT_GE(run.loader.sampler().offset(static_cast<std::uint64_t>(steps)), 10000 - 8);
    EXPECT_THROW(run.loader.next(), UserError);
  }
}

TEST(Loader, StopsWhileItsThreadWaits) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  for (int i = 0; i < 20; ++i) {
    Running run(file, {.samples = 1, .positions = 8, .microbatches = 1}, 0, 1 + i % 4);
    for (int asked = 0; asked < i % 3; ++asked) EXPECT_EQ(run.loader.next().step, static_cast<std::uint64_t>(asked));
  }
}

// Bytes that no thread but the one that opened them may read.
class BoundBytes final : public io::ByteSource {
 public:
  explicit BoundBytes(std::vector<std::uint16_t> ids) : ids_(std::move(ids)) {}
  std::uint64_t size() const override { return ids_.size() * 2; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    EXPECT_EQ(std::this_thread::get_id(), owner_);
    std::ranges::copy(std::as_bytes(std::span(ids_)).subspan(offset, out.size()), out.begin());
  }

 private:
  std::vector<std::uint16_t> ids_;
  std::thread::id owner_ = std::this_thread::get_id();
};

TEST(Loader, ReadsWhenAskedInTheCallersThread) {
  const Folder folder;
  const std::vector<std::uint16_t> ids = counting(40000, 40000);
  const TokenFile mapped(folder.write_ids("train.bin", ids), format);
  const TokenFile bound("bound", format, std::make_unique<BoundBytes>(ids));
  const LoaderShape shape{.samples = 3, .positions = 17, .microbatches = 2, .rank = 1, .ranks = 2};
  Running ahead(mapped, shape, 4), asked(bound, shape, 4, 0);
  EXPECT_EQ(asked.arena.bytes() * 2, ahead.arena.bytes());
  for (int step = 0; step < 5; ++step) {
    const StepBatches a = ahead.loader.next(), b = asked.loader.next();
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.target_count, b.target_count);
    for (std::size_t m = 0; m < 2; ++m) {
      EXPECT_EQ(a.microbatches[m].first_sample, b.microbatches[m].first_sample);
      EXPECT_EQ(values(a.microbatches[m].tokens), values(b.microbatches[m].tokens));
      EXPECT_EQ(values(a.microbatches[m].targets), values(b.microbatches[m].targets));
    }
  }
}

TEST(Loader, MustBeStartedOnceWithMemory) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), format);
  Loader loader(file, sampler_of(file, 8), {.samples = 1, .positions = 8});
  EXPECT_THROW(loader.next(), BrokenRule);
  EXPECT_THROW(loader.start(0, 0), BrokenRule);
  Running run(file, {.samples = 1, .positions = 8});
  EXPECT_THROW(run.loader.start(0, 0), BrokenRule);
}

TEST(WindowReader, EvaluatesOnTheSameWindowsEveryTime) {
  const Folder folder;
  const TokenFile file(folder.write_ids("val.bin", counting(40000, 40000)), format);
  Reader first(file, evaluation_sampler(file, 16, 1337, "val"), 4, 16, 40);
  Reader again(file, evaluation_sampler(file, 16, 1337, "val"), 4, 16, 40);
  Reader train(file, evaluation_sampler(file, 16, 1337, "train"), 4, 16, 40);
  ASSERT_EQ(first.reader.batches(), 10);
  int equal = 0;
  for (std::int64_t i = 0; i < 10; ++i) {
    expect_rows(first.reader.read(i), file, evaluation_sampler(file, 16, 1337, "val"));
    EXPECT_EQ(values(first.reader.read(i).tokens), values(again.reader.read(i).tokens));
    equal += values(first.reader.read(i).tokens) == values(train.reader.read(i).tokens) ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

TEST(WindowReader, ReadsAWholeFileAndPadsTheLastBatch) {
  const Folder folder;
  const TokenFile file(folder.write_ids("val.bin", counting(57, 50)), format);  // 7 windows of 8, the last token is a target
  const Sampler sampler = whole_file_sampler(file, 8);
  Reader all(file, sampler, 4, 8, sampler.windows());
  ASSERT_EQ(all.reader.windows(), 8 - 1);
  ASSERT_EQ(all.reader.batches(), 2);
  EXPECT_EQ(all.reader.read(0).target_count, 32);
  EXPECT_EQ(values(all.reader.read(0).tokens)[31], 31);
  const Batch& last = all.reader.read(1);
  EXPECT_EQ(last.target_count, 24);
  const std::vector<std::int32_t> tokens = values(last.tokens), targets = values(last.targets);
  EXPECT_EQ(tokens[23], 5);   // token 55
  EXPECT_EQ(targets[23], 6);  // token 56
  for (std::size_t i = 24; i < 32; ++i) {
    EXPECT_EQ(tokens[i], 0);
    EXPECT_EQ(targets[i], -1);
  }
  EXPECT_THROW(all.reader.read(2), BrokenRule);
}

TEST(WindowReader, ReadsTheTailAndLeavesKnownTargetsOut) {
  const Folder folder;
  const TokenFile file(folder.write_ids("val.bin", counting(15, 50)), format);
  const Sampler sampler = whole_file_sampler(file, 8, 5);
  Reader all(file, sampler, 4, 8, sampler.windows());
  ASSERT_EQ(all.reader.windows(), 3);
  const Batch& batch = all.reader.read(0);
  EXPECT_EQ(batch.target_count, 14);
  const std::vector<std::int32_t> tokens = values(batch.tokens), targets = values(batch.targets);
  EXPECT_EQ(std::vector<std::int32_t>(targets.begin() + 8, targets.begin() + 16),
            (std::vector<std::int32_t>{-1, -1, -1, 9, 10, 11, 12, 13}));
  EXPECT_EQ(std::vector<std::int32_t>(tokens.begin() + 16, tokens.begin() + 24),
            (std::vector<std::int32_t>{10, 11, 12, 13, 0, 0, 0, 0}));
  EXPECT_EQ(std::vector<std::int32_t>(targets.begin() + 16, targets.begin() + 24),
            (std::vector<std::int32_t>{-1, -1, -1, 14, -1, -1, -1, -1}));
}

}  // namespace
}  // namespace lockstep::data
