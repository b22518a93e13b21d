#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace lockstep {
namespace {

/// Hands out aligned memory and counts what is not given back.
class CountingSource : public MemorySource {
 public:
  Memory allocate(std::size_t size) override {
    const std::size_t rounded = (size + 63) / 64 * 64;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
    std::memset(data, 0, rounded);
    ++held;
    asked = size;
    return {this, data, size};
  }
  int held = 0;
  std::size_t asked = 0;

 private:
  void release(std::byte* data, std::size_t) noexcept override {
    std::free(data);
    --held;
  }
};

/// An empty source for a refused allocation.
class EmptySource : public MemorySource {
 public:
  Memory allocate(std::size_t) override { throw SystemError("no memory"); }

 private:
  void release(std::byte*, std::size_t) noexcept override {}
};

TEST(ArenaOfTensors, GivesAlignedPlacesThatDoNotOverlap) {
  CountingSource source;
  Ledger ledger;
  Tensor a, b, c;
  {
    Arena arena("h.0", MemoryKind::parameters);
    arena.declare(a, "a", {3, 5}, DType::f32);
    arena.declare(b, "b", {7}, DType::u8);
    arena.declare(c, "c", {2, 2}, DType::bf16);
    EXPECT_EQ(a.shape, (Shape{3, 5}));
    EXPECT_EQ(c.dtype, DType::bf16);
    EXPECT_FALSE(a);
    EXPECT_FALSE(arena.committed());
    EXPECT_EQ(arena.bytes(), 3 * 64);
    arena.commit(source, ledger);
    EXPECT_TRUE(arena.committed());
    EXPECT_EQ(source.asked, 192U);
    EXPECT_EQ(b.data, a.data + 64);
    EXPECT_EQ(c.data, b.data + 64);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data) % 64, 0U);
    EXPECT_EQ(elements<float>(a)[14], 0);
    EXPECT_EQ(source.held, 1);
  }
  EXPECT_EQ(source.held, 0);
}

TEST(ArenaOfTensors, SpreadsRowsThatWouldCrowdACache) {
  CountingSource source;
  Ledger ledger;
  Tensor crowded, half, other, after;
  Arena arena("h.0", MemoryKind::activations);
  arena.declare_spread(crowded, "crowded", {3, 256}, DType::f32);
  arena.declare_spread(half, "half", {3, 1024}, DType::bf16);
  arena.declare_spread(other, "other", {3, 160}, DType::f32);
  arena.declare(after, "after", {16}, DType::f32);
  arena.commit(source, ledger);
  EXPECT_EQ(crowded.shape, (Shape{3, 256}));
  EXPECT_EQ(crowded.stride(), 256 + 16);
  EXPECT_EQ(half.stride(), 1024 + 32);
  EXPECT_TRUE(other.dense());
  EXPECT_EQ(half.data, crowded.data + 3 * (1024 + 64));
  EXPECT_EQ(other.data, half.data + 3 * (2048 + 64));
  EXPECT_EQ(after.data, other.data + 3 * 640);
}

TEST(ArenaOfTensors, LifetimesThatDoNotOverlapShareBytes) {
  CountingSource source;
  Ledger ledger;
  Tensor kept, first, second, third;
  Arena arena("h.0", MemoryKind::activations);
  arena.declare(kept, "kept", {16}, DType::f32);
  const Arena::Mark mark = arena.mark();
  arena.declare(first, "first", {64}, DType::f32);
  arena.rewind(mark);
  arena.declare(second, "second", {16}, DType::f32);
  arena.declare(third, "third", {16}, DType::f32);
  EXPECT_EQ(arena.bytes(), 64 + 256);
  EXPECT_THROW(arena.rewind(1 << 20), BrokenRule);
  EXPECT_THROW(arena.rewind(-64), BrokenRule);
  arena.commit(source, ledger);
  EXPECT_EQ(first.data, kept.data + 64);
  EXPECT_EQ(second.data, first.data);
  EXPECT_EQ(third.data, second.data + 64);
  EXPECT_EQ(ledger.total(MemoryKind::activations), 320);
  ASSERT_EQ(ledger.entries().size(), 4U);
  EXPECT_EQ(ledger.entries()[1].name, "first");
  EXPECT_EQ(ledger.entries()[1].owner, "h.0");
  EXPECT_EQ(ledger.entries()[1].bytes, 256);
}

TEST(ArenaOfTensors, WhatIsKeptSharesNothing) {
  CountingSource source;
  Ledger ledger;
  Arena arena("h.0", MemoryKind::workspace);
  Tensor long_one, short_one, next;
  arena.declare(long_one, "long", {64}, DType::f32);
  arena.rewind(0);
  arena.declare(short_one, "short", {16}, DType::f32);
  arena.keep();
  arena.declare(next, "next", {16}, DType::f32);
  arena.commit(source, ledger);
  EXPECT_EQ(short_one.data, long_one.data);
  EXPECT_EQ(next.data, long_one.data + 256);
}

TEST(ArenaOfTensors, NothingIsDeclaredAfterCommit) {
  CountingSource source;
  Ledger ledger;
  Tensor a, b;
  Arena arena("h.0", MemoryKind::workspace);
  arena.declare(a, "a", {1}, DType::f32);
  arena.commit(source, ledger);
  EXPECT_THROW(arena.declare(b, "b", {1}, DType::f32), BrokenRule);
  EXPECT_THROW(arena.rewind(0), BrokenRule);
  EXPECT_THROW(arena.commit(source, ledger), BrokenRule);
}

TEST(ArenaOfTensors, AnEmptyArenaCommits) {
  CountingSource source;
  Ledger ledger;
  Arena arena("none", MemoryKind::data);
  arena.commit(source, ledger);
  EXPECT_TRUE(arena.committed());
  EXPECT_EQ(ledger.total(), 0);
}

TEST(ArenaOfTensors, ARefusedAllocationEntersNothing) {
  EmptySource source;
  Ledger ledger;
  Tensor a;
  Arena arena("h.0", MemoryKind::data);
  arena.declare(a, "a", {1}, DType::f32);
  EXPECT_THROW(arena.commit(source, ledger), SystemError);
  EXPECT_FALSE(arena.committed());
  EXPECT_FALSE(a);
  EXPECT_EQ(ledger.total(), 0);
}

TEST(ArenaOfTensors, RefusesSizesBeyond64Bits) {
  Tensor a;
  Arena arena("h.0", MemoryKind::data);
  EXPECT_THROW(arena.declare(a, "a", {1LL << 40, 1LL << 22}, DType::i64), BrokenRule);
}

TEST(ArenaOfTensors, KnowsWhoseItsBytesAre) {
  Tensor x, flat, first, second;
  Arena arena("memory", MemoryKind::activations);
  {
    const Arena::InLayer in(arena, "h.0");
    arena.declare(x, "x", {16}, DType::f32);
  }
  const Arena::Mark mark = arena.mark();
  arena.declare(first, "first", {32}, DType::f32);
  arena.rewind(mark);
  arena.declare(second, "second", {48}, DType::f32);
  arena.rewind(mark);
  arena.declare(flat, "flat", {80}, DType::f32);
  arena.divide("of layers", {{"h.0", 128}, {"h.1", 192}});
  const std::vector<LedgerEntry>& entries = arena.entries();
  ASSERT_EQ(entries.size(), 5U);
  const auto is = [&](std::size_t i, const char* layer, const char* name, std::int64_t bytes, std::int64_t taken) {
    EXPECT_EQ(entries[i].layer, layer);
    EXPECT_EQ(entries[i].name, name);
    EXPECT_EQ(entries[i].bytes, bytes);
    EXPECT_EQ(entries[i].taken, taken);
  };
  is(0, "h.0", "x", 64, 64);
  is(1, "", "first", 128, 128);
  is(2, "", "second", 192, 64);
  is(3, "h.0", "of layers", 128, 0);
  is(4, "h.1", "of layers", 192, 128);
  EXPECT_EQ(arena.bytes(), 64 + 320);
  EXPECT_THROW(arena.divide("too much", {{"h.0", 256}}), BrokenRule);
}

}  // namespace
}  // namespace lockstep
