// Two ranks have some positions each of every sample. In attention they exchange positions for heads, gather all keys or pass
// theirs round. Loss and gradients are within 1e-5 of one rank.

#include "parallel/context_attention.h"

#include <gtest/gtest.h>

#include "comm/thread/thread_world.h"
#include "parallel/context/exchanging_attention.h"
#include "parallel/context/gathering_attention.h"
#include "parallel/context/ring_attention.h"
#include "reference/families.h"
#include "support/learnt.h"

namespace lockstep::model {
namespace {

using parallel::AttentionCall;
using parallel::AttentionSaved;
using parallel::ExchangingAttention;
using parallel::GatheringAttention;
using parallel::RingAttention;
using parallel::split_positions;
using parallel::TokenGrid;
using support::Learnt;
using support::Lesson;

constexpr TokenGrid grid{3, 7};

template <class Attention>
Learnt learn_together(const arch::ModelConfig& config, int ranks, bool late_weights = false,
                      const layout::Recompute& recompute = {}) {
  std::vector<Learnt> learnt(static_cast<std::size_t>(ranks));
  Learnt sum;
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& group) {
    support::Machine machine(1);
    group.attach(*machine.stream, machine.runtime->team());
    const auto rank = static_cast<std::size_t>(group.rank());
    const Lesson lesson{
        .tokens = grid, .positions = split_positions(grid.positions, group.rank(), ranks), .late_weights = late_weights};
    const std::vector<layout::Action> actions = lesson.actions();
    Attention attention(grid.positions, group.rank(), ranks);
    support::TinyStages model(config, lesson.own(), support::one_chunk(config), actions, lesson.microbatches, machine,
                              {.attention = &attention, .recompute = recompute});
    attention.connect(group);
    learn(model, lesson, learnt[rank]);
    for (int r = 0; r < ranks; ++r) {  // in turn
      if (r == group.rank()) add(sum, model, r, [](arch::Role) { return true; });
      group.barrier();
    }
  });
  for (const Learnt& part : learnt) {
    sum.loss += part.loss;
    sum.evaluated += part.evaluated;
  }
  return sum;
}

TEST(ContextAttention, RanksWithSomePositionsEachLearnWhatOneRankDoes) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    const Learnt alone = learn_alone(config, support::whole_lesson(grid));
    for (const int ranks : {2, 3}) {
      expect_near(learn_together<ExchangingAttention>(config, ranks), alone, 1e-5);
      expect_near(learn_together<GatheringAttention>(config, ranks), alone, 1e-5);
      expect_near(learn_together<RingAttention>(config, ranks), alone, 1e-5);
    }
  }
}

TEST(ContextAttention, LaterWeightGradientsHaveTheSameBits) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    expect_equal(learn_together<ExchangingAttention>(config, 2, true), learn_together<ExchangingAttention>(config, 2));
    expect_equal(learn_together<GatheringAttention>(config, 2, true), learn_together<GatheringAttention>(config, 2));
    expect_equal(learn_together<RingAttention>(config, 2, true), learn_together<RingAttention>(config, 2));
  }
}

// What attention keeps of other ranks' rows is exchanged again.
TEST(ContextAttention, RecomputationHasTheSameBits) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    const Learnt exchanged = learn_together<ExchangingAttention>(config, 2),
                 gathered = learn_together<GatheringAttention>(config, 2), passed = learn_together<RingAttention>(config, 2);
    for (const layout::Recompute& recompute : support::recomputations()) {
      for (const bool late : {false, true}) {
        expect_equal(learn_together<ExchangingAttention>(config, 2, late, recompute), exchanged);
        expect_equal(learn_together<GatheringAttention>(config, 2, late, recompute), gathered);
        expect_equal(learn_together<RingAttention>(config, 2, late, recompute), passed);
      }
    }
  }
}

TEST(ContextAttention, OneRankThatSendsItselfWhatItHasGivesTheBitsOfALocalOne) {
  for (const arch::ModelConfig& config : support::dropping_models()) {
    const Learnt alone = learn_alone(config, support::whole_lesson(grid));
    expect_equal(learn_together<ExchangingAttention>(config, 1), alone);
    expect_equal(learn_together<GatheringAttention>(config, 1), alone);
    expect_equal(learn_together<RingAttention>(config, 1), alone);
  }
}

// A planner counts what it takes where there is no group.
TEST(ContextAttention, DeclaresFromSizesAlone) {
  const layout::ShardedDims dims = arch::whole_dims(support::tiny_llama());
  const auto bytes_of = [&](parallel::ContextAttention& attention, std::int64_t rows) {
    Arena arena("attention", MemoryKind::activations);
    AttentionSaved saved;
    attention.declare(arena, saved, {rows, dims, DType::f32});
    attention.declare(arena, {rows, dims, DType::f32});
    return arena.bytes();
  };
  const auto rounded = [](std::int64_t floats) { return (floats * 4 + 63) / 64 * 64; };
  const std::int64_t all = grid.rows(), own = 3 * 3, head = dims.head_size;
  ExchangingAttention first(grid.positions, 0, 2);
  const std::int64_t heads = 3, kv = 1;  // of 6 and 2
  EXPECT_EQ(bytes_of(first, own), 2 * rounded(all * heads) + 6 * rounded(all * heads * head) + 4 * rounded(all * kv * head))
      << "lse and delta; queries, results and their gradients, and messages of as much; keys and values and theirs";
  GatheringAttention gathering(grid.positions, 0, 2);
  const std::int64_t kv_width = 2 * head;
  EXPECT_EQ(bytes_of(gathering, own), 2 * rounded(own * 6) + 5 * rounded(all * kv_width) + 2 * rounded(grid.positions * kv_width))
      << "lse and delta; keys, values, their gradients and a message; gradients of one sample's keys";
  RingAttention passing(grid.positions, 0, 2);
  const std::int64_t passed = 2 * 3 * 4 * kv_width;  // keys and values of rank 1, which has 4 of a sample's 7 positions
  EXPECT_EQ(bytes_of(passing, own), rounded(own * 6) + rounded(2 * 6) + 5 * rounded(passed))
      << "lse, and delta of a run; keys and values of two ranks, their gradients of three: none of all ranks";
  EXPECT_EQ(bytes_of(*parallel::make_local_attention(), all), 2 * rounded(all * 6)) << "lse and delta";
}

TEST(ContextAttention, ALocalOneHasAllPositions) {
  const auto ops = ops::make_reference_ops();
  const auto local = parallel::make_local_attention();
  AttentionCall call{.shape = {.samples = 1, .queries = 3, .keys = 3, .key_rows = 3, .heads = 1, .kv_heads = 1, .head_size = 2},
                     .positions = {4, 3},
                     .dropout = {}};
  EXPECT_THROW(local->forward(*ops, {}, {}, call), BrokenRule);
  EXPECT_THROW(local->backward(*ops, {}, {}, {}, call), BrokenRule);
}

}  // namespace
}  // namespace lockstep::model
