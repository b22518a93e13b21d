// What ranks that cut their state send and keep: the formulas of ZeRO (Rajbhandari et al. 2020), counted.

#include <gtest/gtest.h>

#include "support/traffic_of_a_step.h"
#include "train/memory/rank_memory.h"

namespace lockstep::train {
namespace {

using comm::Collective;
using comm::Purpose;
using support::LayoutRun;
using support::traffic_of_a_step;

/// Bytes of all weights in fp32, padding included, and of the blocks among them.
struct Sizes {
  std::int64_t all = 0, block = 0;
};
Sizes sizes_of(const arch::ModelConfig& model) {
  Sizes sizes;
  const std::vector<layout::Unit> units = arch::units_of(arch::unit_table(model));
  for (const layout::Unit& unit : units) sizes.all += 4 * unit.elements;
  sizes.block = 4 * units[static_cast<std::size_t>(arch::unit_map(model).blocks.front().value)].elements;
  return sizes;
}

// An all-reduce sends twice what a reduce-scatter or an all-gather does. These send (n - 1) / n of the bytes on each of n ranks,
// and n - 1 times the bytes on all.
TEST(ZeroVolume, LevelsSendTwoTwoTwoAndThreeTimesTheModel) {
  LayoutRun run{.layout = "dp=3,prefetch=0", .model = support::tiny_llama()};
  run.model.layers = 5;
  const auto [all, block] = sizes_of(run.model);
  const comm::Traffic whole = traffic_of_a_step(run);
  EXPECT_EQ(whole.at(Purpose::gradients, Collective::all_reduce).sent, 2 * 2 * all);
  EXPECT_EQ(whole.of(Purpose::gradients).sent, 2 * 2 * all);
  EXPECT_EQ(whole.of(Purpose::weights).sent, 0);
  for (int level = 1; level <= 3; ++level) {
    const comm::Traffic cut = traffic_of_a_step(support::at_level(run, level));
    EXPECT_EQ(cut.at(Purpose::gradients, Collective::reduce_scatter).sent, 2 * all) << level;
    EXPECT_EQ(cut.of(Purpose::gradients).sent, 2 * all) << level;
    // Backward needs the blocks again, of which the last is still there; embedding and head are read once.
    EXPECT_EQ(cut.of(Purpose::weights).sent, 2 * (level < 3 ? all : all + 4 * block)) << level;
    EXPECT_EQ(cut.of(Purpose::activations).sent + cut.of(Purpose::keys).sent, 0);
  }
  EXPECT_EQ(traffic_of_a_step(support::with(run, "zero=3,reshard=false")).of(Purpose::weights).sent, 2 * all);
}

TEST(ZeroVolume, ReducingEachMicroBatchSendsGradientsAsOften) {
  const LayoutRun run{.layout = "dp=2,gas=3,reduce=microbatch,reshard=false", .model = support::tiny_llama()};
  const std::int64_t all = sizes_of(run.model).all;
  for (int level = 1; level <= 3; ++level) {
    const comm::Traffic cut = traffic_of_a_step(support::at_level(run, level));
    EXPECT_EQ(cut.of(Purpose::gradients).sent, 3 * all);
    EXPECT_EQ(cut.of(Purpose::weights).sent, all);
  }
}

// Beside bf16 weights: half the bytes in a gather, fp32 in sums.
TEST(ZeroVolume, WeightsTravelInTheTypeThatIsRead) {
  const LayoutRun run{.layout = "dp=2,zero=2", .model = support::tiny_llama(), .weights = support::bf16_with_masters};
  const std::int64_t all = sizes_of(run.model).all;
  const comm::Traffic cut = traffic_of_a_step(run);
  EXPECT_EQ(cut.of(Purpose::gradients).sent, all);
  EXPECT_EQ(cut.of(Purpose::weights).sent, all / 2);
}

/// 7.5 billion parameters on 64 ranks, of which the paper's table speaks.
EngineConfig paper(int level) {
  EngineConfig config;
  arch::ModelConfig& model = config.model;
  model.layers = 36;
  model.heads = model.kv_heads = 32;
  model.width = 4096;
  model.head_size = 128;
  model.ffn_width = 16384;
  model.block_size = 1024;
  model.vocabulary = 29696;
  model.tied = false;
  config.weights = support::bf16_with_masters;
  config.positions = 1024;
  config.plan = {.dp = 64, .ranks_per_host = 8};
  layout::set_zero_level(config.plan, level);
  return config;
}

struct Kept {
  double state = 0;    ///< gigabytes of weights, gradients, masters and slots
  double buffers = 0;  ///< of what is whole for a while
};
Kept kept_by(const EngineConfig& config) {
  Kept kept;
  const Ledger ledger = RankMemory(config, {.dp = 63}).ledger(0);
  for (const LedgerEntry& entry : ledger.entries()) {
    if (entry.kind != MemoryKind::parameters && entry.kind != MemoryKind::gradients && entry.kind != MemoryKind::optimizer)
      continue;
    const bool buffer = entry.name == "gathered" || entry.name == "buckets";
    (buffer ? kept.buffers : kept.state) += static_cast<double>(entry.bytes) / 1e9;
  }
  return kept;
}

// 2 bytes of weights, 4 of gradients (the paper has 2), 10 of masters' lower halves and slots a parameter (the paper: 12).
TEST(ZeroVolume, LevelsKeepWhatTheLawSays) {
  const double billions = static_cast<double>(arch::count_parameters(paper(0).model).total) / 1e9;
  ASSERT_NEAR(billions, 7.5, 0.01);
  const double laws[] = {16 * billions, 6 * billions + 10 * billions / 64, 2 * billions + 14 * billions / 64, 16 * billions / 64};
  const double in_words[] = {120, 46.2, 16.6, 1.9};
  const double block = 12.0 * 4096 * 4096 / 1e9, end = 29696.0 * 4096 / 1e9;  // billions of parameters
  for (int level = 0; level <= 3; ++level) {
    const Kept kept = kept_by(paper(level));
    EXPECT_NEAR(kept.state, laws[level], 0.005 * laws[level]) << level;
    EXPECT_NEAR(laws[level], in_words[level], 0.1) << level;
    // Two buckets of gradients, which are a block each; at level 3 two blocks of weights, and the embedding or the head.
    const double buckets = level >= 2 ? 4 * 2 * block : 0, gathered = level >= 3 ? 2 * (2 * block + end) : 0;
    EXPECT_NEAR(kept.buffers, buckets + gathered, 0.02 * (buckets + gathered)) << level;
  }
}

TEST(ZeroVolume, ASumOfSeveralMicroBatchesIsWholeUntilTheLast) {
  for (const layout::ReduceEvery reduce : {layout::ReduceEvery::step, layout::ReduceEvery::microbatch}) {
    EngineConfig config = paper(2);
    config.plan.microbatches = 4;
    config.plan.reduce = reduce;
    const std::int64_t gradients = RankMemory(config, {}).ledger(0).total(MemoryKind::gradients);
    const std::int64_t whole = RankMemory(paper(0), {}).ledger(0).total(MemoryKind::gradients);
    if (reduce == layout::ReduceEvery::step) {
      EXPECT_EQ(gradients, whole);
    } else {
      EXPECT_LT(gradients, whole / 8);
    }
  }
}

}  // namespace
}  // namespace lockstep::train
