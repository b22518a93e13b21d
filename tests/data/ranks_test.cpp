// Which rank reads what: partitions are disjoint and complete, draws distinct, shards the rank's own, and readers scatter what
// the others would have read.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>

#include "base/timer.h"
#include "comm/thread/thread_world.h"
#include "data/scattered_loader.h"
#include "data/shards.h"
#include "data/support.h"
#include "device/stream.h"
#include "device/team.h"

namespace lockstep::data {
namespace {

constexpr TokenFormat id_format{.token_bytes = 2, .vocabulary = 50000};
constexpr std::int64_t positions = 8;

SamplerOptions options_of(const TokenFile& file, Order order, std::int64_t global_batch) {
  SamplerOptions options;
  options.order = order;
  options.seed = 7;
  options.name = training_sequence(order);
  options.tokens = file.tokens();
  options.positions = positions;
  options.global_batch = global_batch;
  return options;
}

// The first tokens of the windows of `steps` steps, by rank.
std::vector<std::vector<std::int32_t>> first_tokens(const TokenFile& file, Order order, int ranks, int steps) {
  std::vector<std::vector<std::int32_t>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const LoaderShape shape{.samples = 2, .positions = positions, .microbatches = 1, .rank = rank, .ranks = ranks};
    Ledger ledger;
    Arena arena("data", MemoryKind::data);
    Loader loader(file, Sampler(options_of(file, order, shape.global_batch())), shape);
    loader.declare(arena);
    arena.commit(host_memory(), ledger);
    loader.start(0, 0);
    all.emplace_back();
    for (int step = 0; step < steps; ++step) {
      const std::span<const std::int32_t> tokens = elements<std::int32_t>(loader.next().microbatches[0].tokens);
      for (std::size_t i = 0; i < tokens.size(); i += positions) all.back().push_back(tokens[i]);
    }
  }
  return all;
}

TEST(RanksOfData, APartitionIsDisjointAndComplete) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(240 * positions + 1, 50000)), id_format);
  for (const int ranks : {1, 2, 3, 5}) {
    for (int epoch = 1; epoch <= 2; ++epoch) {
      const int steps = 240 / (2 * ranks);
      std::set<std::int32_t> seen;
      std::size_t count = 0;
      for (const auto& rank : first_tokens(file, Order::partition, ranks, steps * epoch)) {
        const auto from = rank.end() - 2 * steps;  // the last epoch
        seen.insert(from, rank.end());
        count += static_cast<std::size_t>(rank.end() - from);
      }
      EXPECT_EQ(count, 240U) << ranks;
      EXPECT_EQ(seen.size(), 240U) << ranks;
    }
  }
}

TEST(RanksOfData, RandomDrawsAreTheSameForAnyNumberOfRanksAndDistinct) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(50000, 50000)), id_format);
  const std::vector<std::vector<std::int32_t>> alone = first_tokens(file, Order::random, 1, 12);
  const std::vector<std::vector<std::int32_t>> three = first_tokens(file, Order::random, 3, 4);
  std::vector<std::int32_t> joined;
  for (std::size_t step = 0; step < 4; ++step) {
    for (const auto& rank : three) joined.insert(joined.end(), {rank[2 * step], rank[2 * step + 1]});
  }
  EXPECT_EQ(joined, alone[0]);
  EXPECT_EQ(std::set<std::int32_t>(joined.begin(), joined.end()).size(), joined.size());
}

TEST(RanksOfData, ShardsAreDisjointAndComplete) {
  const Folder folder;
  const TokenFile whole(folder.write_ids("train.bin", counting(1003, 50000)), id_format);
  for (const int shards : {1, 4, 200}) {
    TokenDescription description{.tokenizer = Json("none"), .format = id_format, .characters = 1003, .files = {}};
    for (const auto& writer : cut_shards(whole, shards, folder.path())) description.files.push_back(writer->commit());
    write_description(folder.path(), description);
    std::vector<std::int32_t> joined;
    for (int shard = 0; shard < shards; ++shard) {
      const TokenFile piece = open_shard(folder.path(), shard, shards);
      EXPECT_LE(std::abs(piece.tokens() - 1003 / shards), 1);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(piece.tokens()));
      piece.read(0, ids);
      joined.insert(joined.end(), ids.begin(), ids.end());
    }
    ASSERT_EQ(joined.size(), 1003U);
    for (std::int32_t i = 0; i < 1003; ++i) ASSERT_EQ(joined[static_cast<std::size_t>(i)], i);
  }
}

TEST(RanksOfData, ShardsThatAreNotThereAreNamed) {
  const Folder folder;
  const TokenFile whole(folder.write_ids("train.bin", counting(10, 50000)), id_format);
  EXPECT_NE(user_error([&] { cut_shards(whole, 11, folder.path()); }).find("--shards 11"), std::string::npos);
  EXPECT_EQ(folder.listing(), "train.bin");  // nothing half-written stays
  const std::string message = user_error([&] { open_shard(folder.path(), 1, 4); });
  EXPECT_NE(message.find("train-00001-of-00004.bin"), std::string::npos) << message;
}

// A shard's rank walks its own text; samples keep their global numbers.
TEST(RanksOfData, AShardsEpochIsItsOwnText) {
  SamplerOptions options;
  options.order = Order::partition;
  options.seed = 7;
  options.name = "shard";
  options.tokens = 60 * positions + 1;
  options.positions = positions;
  options.global_batch = 12;
  options.shard = 1;
  options.shards = 3;
  const Sampler sampler(options);
  EXPECT_EQ(sampler.steps_per_epoch(), 15);
  std::set<std::int64_t> seen;
  for (std::uint64_t step = 0; step < 15; ++step) {
    for (std::uint64_t i = 4; i < 8; ++i) seen.insert(sampler.offset(12 * step + i));
  }
  EXPECT_EQ(seen.size(), 60U);
  EXPECT_THROW((void)sampler.offset(3), BrokenRule);
  EXPECT_THROW((void)sampler.offset(8), BrokenRule);
}

// A micro-batch as a rank got it.
struct Read {
  std::uint64_t first_sample = 0;
  std::vector<std::int32_t> tokens, targets;
  bool operator==(const Read&) const = default;
};

std::vector<std::int32_t> ids_of(const Tensor& tensor) {
  const std::span<const std::int32_t> ids = elements<std::int32_t>(tensor);
  return {ids.begin(), ids.end()};
}

std::vector<Read> read_on(comm::Communicator& world, int readers, const TokenFile& file) {
  const LoaderShape shape{.samples = 2, .positions = positions, .microbatches = 3, .rank = world.rank(), .ranks = world.size()};
  const Sampler sampler(options_of(file, Order::random, shape.global_batch()));
  const int colour = readers == 0 ? 0 : world.rank() * readers / world.size();
  const std::unique_ptr<comm::Communicator> group = world.split(colour, world.rank());
  Ledger ledger;
  Arena arena("data", MemoryKind::data);
  std::unique_ptr<BatchSource> source;
  if (readers == 0) {
    source = std::make_unique<Loader>(file, sampler, shape);
  } else {
    source = std::make_unique<ScatteredLoader>(file, sampler, shape, *group);
  }
  source->declare(arena);
  arena.commit(host_memory(), ledger);
  source->start(5, 5 * static_cast<std::uint64_t>(shape.global_batch()));
  std::vector<Read> reads;
  for (std::uint64_t step = 5; step < 9; ++step) {
    const StepBatches batches = source->next();
    EXPECT_EQ(batches.step, step);
    std::int64_t targets = 0;
    for (const Batch& batch : batches.microbatches) {
      const std::vector<std::int32_t> ids = ids_of(batch.targets);
      EXPECT_EQ(batch.target_count, std::ssize(ids) - std::ranges::count(ids, -1));
      targets += batch.target_count;
      reads.push_back({batch.first_sample, ids_of(batch.tokens), ids});
    }
    EXPECT_EQ(batches.target_count, targets);
    EXPECT_TRUE(file.masked() || targets == 2 * 3 * positions) << targets;
  }
  return reads;
}

/// What the ranks get as batches of windows, rank r batches r, r + size, ...; the last batch is not full.
std::vector<Read> windows_on(comm::Communicator& world, int readers, const TokenFile& file) {
  constexpr std::int64_t samples = 2, limit = 15;
  const Sampler sampler = evaluation_sampler(file, positions, 1337, "val");
  const std::unique_ptr<comm::Communicator> group = world.split(world.rank() * readers / world.size(), world.rank());
  const TokenFile absent = TokenFile::elsewhere(file.path(), file.format(), file.tokens(), file.mask_path());
  std::unique_ptr<WindowSource> source;
  if (readers == 0) {
    source = std::make_unique<WindowReader>(file, sampler, samples, positions, limit);
  } else {
    const TokenFile& own = group->rank() == 0 ? file : absent;
    source = std::make_unique<ScatteredWindows>(own, sampler, samples, positions, limit, *group);
  }
  Ledger ledger;
  Arena arena("data", MemoryKind::data);
  source->declare(arena);
  arena.commit(host_memory(), ledger);
  std::vector<Read> reads;
  for (std::int64_t i = world.rank(); i < source->batches(); i += world.size()) {
    const Batch& batch = source->read(i);
    const std::vector<std::int32_t> ids = ids_of(batch.targets);
    EXPECT_EQ(batch.target_count, std::ssize(ids) - std::ranges::count(ids, -1));
    reads.push_back({batch.first_sample, ids_of(batch.tokens), ids});
  }
  return reads;
}

using ReadOn = std::vector<Read>(comm::Communicator& world, int readers, const TokenFile& file);
/// Four ranks get `each` micro-batches, the same ones whether each reads for itself or 1, 2 or 4 read for all.
void expect_the_same_with_readers(ReadOn& read, const TokenFile& file, std::size_t each) {
  std::vector<std::vector<Read>> expected(4);
  for (const int readers : {0, 1, 2, 4}) {
    std::vector<std::vector<Read>> found(4);
    comm::run_ranks(4, {.timeout = 60}, [&](comm::Communicator& world) {
      found[static_cast<std::size_t>(world.rank())] = read(world, readers, file);
    });
    if (readers == 0) expected = found;
    EXPECT_EQ(found[3].size(), each);
    EXPECT_TRUE(found == expected) << readers;
  }
}

TEST(RanksOfData, ReadersScatterWindowsThatTheOthersDoNotOpen) {
  const Folder folder;
  TokenFile file(folder.write_ids("val.bin", counting(4000, 40000)), id_format);
  std::string mask;
  for (int i = 0; i < 4000; ++i) mask += i % 7 < 3 ? '\0' : '\1';
  const std::string mask_path = folder.write("val.mask.bin", mask);
  for (const bool masked : {false, true}) {
    if (masked) file.set_mask(mask_path, std::make_unique<io::MappedFile>(mask_path));
    expect_the_same_with_readers(windows_on, file, 2);
  }
}

TEST(RanksOfData, ReadersScatterWhatTheOthersWouldHaveRead) {
  const Folder folder;
  TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), id_format);
  std::string mask;
  for (int i = 0; i < 40000; ++i) mask += i % 7 < 3 || i % 1000 < 700 ? '\0' : '\1';
  const std::string mask_path = folder.write("train.mask.bin", mask);
  for (const bool masked : {false, true}) {
    if (masked) file.set_mask(mask_path, std::make_unique<io::MappedFile>(mask_path));
    expect_the_same_with_readers(read_on, file, 12);
  }
}

// The reader computes between its batches: then its ops let collectives move, as they do here.
TEST(RanksOfData, ReadersScatterAStepAhead) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(40000, 40000)), id_format);
  std::atomic<bool> other_has_two = false;
  bool ahead = false;
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    const LoaderShape shape{.samples = 2, .positions = positions, .rank = world.rank(), .ranks = 2};
    const std::unique_ptr<Stream> stream = make_immediate_stream();
    Team team(1);
    world.attach(*stream, team);
    Ledger ledger;
    Arena arena("data", MemoryKind::data);
    ScatteredLoader loader(file, Sampler(options_of(file, Order::random, shape.global_batch())), shape, world);
    loader.declare(arena);
    arena.commit(host_memory(), ledger);
    loader.start(0, 0);
    (void)loader.next();
    if (world.rank() == 0) {
      for (const double since = now_seconds(); !other_has_two && now_seconds() - since < 30;) stream->progress();
      ahead = other_has_two;
    }
    (void)loader.next();
    other_has_two = true;
  });
  EXPECT_TRUE(ahead);
}

}  // namespace
}  // namespace lockstep::data
