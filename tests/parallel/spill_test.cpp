// Tensors that lie in a file or in the host's memory.

#include "parallel/offload/spill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/temp_folder.h"

namespace lockstep::parallel {
namespace {

using layout::Range;
using layout::Tier;

constexpr std::int64_t count = 5000, range = OffloadOptions::piece;

/// Two tensors of one kind and one of another, and memory to move the largest.
struct Elsewhere {
  explicit Elsewhere(Tier tier) {
    const Spill::Needs weights{.tier = tier, .what = "weights", .of = "h.0", .elements = count, .range = range};
    first = spill.declare(weights);
    second = spill.declare(weights);
    narrow = spill.declare({.tier = tier, .what = "slots", .of = "h.0", .elements = 10, .type = DType::bf16, .range = range});
    Spill::declare(arena, memory, "memory", Spill::bytes_of(count, DType::f32));
    spill.declare_host(arena);
    Ledger ledger;
    arena.commit(host_memory(), ledger);
    spill.open({.folder = folder.path()}, *stream);
  }
  std::span<float> values(std::int64_t number) const {
    return elements<float>(typed(Spill::part(memory, 0, Spill::bytes_of(number, DType::f32)).host, 0, number, DType::f32));
  }
  void write(int number, float from) {
    const std::span<float> to = values(count);
    std::iota(to.begin(), to.end(), from);
    Spill::Move move = spill.write(number, {0, count}, Spill::part(memory, 0, Spill::bytes_of(count, DType::f32)));
    spill.finish(move);
  }
  std::span<float> read(int number, const Range& part) {
    Spill::Move move = spill.read(number, part, Spill::part(memory, 0, Spill::bytes_of(part.count, DType::f32)));
    spill.finish(move);
    spill.finish(move);  // which is nothing
    return values(part.count);
  }

  TempFolder folder;
  std::unique_ptr<Stream> stream = make_immediate_stream();
  Arena arena{"memory", MemoryKind::workspace};
  Mirror memory;
  Spill spill;
  int first = 0, second = 0, narrow = 0;
};

class SpillIn : public testing::TestWithParam<Tier> {};
INSTANTIATE_TEST_SUITE_P(Tiers, SpillIn, testing::Values(Tier::disk, Tier::host));

TEST_P(SpillIn, GivesBackWhatWasWrittenAndZeroBefore) {
  Elsewhere all(GetParam());
  EXPECT_EQ(std::ranges::count(all.read(all.first, {0, count}), 0.0F), count);
  all.write(all.first, 1);
  all.write(all.second, 9000);
  const std::span<float> middle = all.read(all.first, {range, range});
  EXPECT_EQ(middle.front(), static_cast<float>(1 + range));
  EXPECT_EQ(middle.back(), static_cast<float>(2 * range));
  const std::span<float> end = all.read(all.second, {range, count - range});
  EXPECT_EQ(end.front(), static_cast<float>(9000 + range));
  EXPECT_EQ(end.back(), static_cast<float>(8999 + count));
  EXPECT_EQ(all.spill.traffic().written, 2 * Spill::bytes_of(count, DType::f32));
}

TEST(Spill, CountsWholeBlocksAndCoversPartsByRanges) {
  Elsewhere all(Tier::disk);
  EXPECT_EQ(all.spill.bytes_of("weights"), 2 * 5 * 4096);
  EXPECT_EQ(all.spill.bytes_of("slots"), 4096);
  EXPECT_EQ(all.spill.bytes(), 11 * 4096);
  EXPECT_EQ(all.spill.cover(all.first, {range + 5, 10}), (Range{range, range}));
  EXPECT_EQ(all.spill.cover(all.first, {range - 1, 2}), (Range{0, 2 * range}));
  EXPECT_EQ(all.spill.cover(all.first, {count - 1, 1}), (Range{2 * range, count - 2 * range}));
  EXPECT_THROW(all.read(all.first, {5, range}), BrokenRule);
  EXPECT_THROW(all.spill.declare({.what = "weights", .of = "h.0", .elements = count, .range = 100}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::parallel
