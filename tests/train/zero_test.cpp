// State that ranks cut among them: whatever is cut, however far, a run learns the same bits.

#include <gtest/gtest.h>

#include <map>

#include "support/saved_run.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using support::Gone;
using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;
using support::Saved;

const std::vector<std::string> levels{"zero=1", "zero=2", "zero=3"};
constexpr int highest_level = 3;

arch::ModelConfig dropping(arch::ModelConfig model) {
  model.dropout = 0.2F;
  return model;
}

// Units of 256 elements and less among them: a rank may have nothing of one.
TEST(Zero, LevelsLearnTheSameBits) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()}) {
    for (const char* ranks : {"dp=1,gas=2", "dp=2,gas=2", "dp=3,gas=2", "dp=4,gas=2"})
      support::expect_bits_of({.layout = ranks, .model = dropping(model)}, levels);
  }
}

TEST(Zero, LevelsLearnTheSameBitsInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
    for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_qwen2()})
      support::expect_bits_of({.layout = "dp=3,gas=2", .model = model, .weights = weights}, levels);
  }
}

// What is drawn for an element depends on its place in the whole parameter, not in a rank's part.
TEST(Zero, LevelsRoundStochasticallyAlike) {
  OptimizerSettings rounded;
  rounded.moments = DType::bf16;
  rounded.rounding = Rounding::stochastic;
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_alone}) {
    for (const char* ranks : {"dp=2,gas=2", "dp=3,gas=2"})
      support::expect_bits_of({.layout = ranks, .weights = weights, .optimizer = rounded}, levels);
  }
}

TEST(Zero, LevelsReduceEachMicroBatchAlike) {
  for (const char* ranks : {"dp=4,gas=1,reduce=microbatch", "dp=4,gas=3,reduce=microbatch"}) {
    for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()})
      support::expect_bits_of({.layout = ranks, .model = model}, levels);
  }
}

TEST(Zero, OverlapAndBucketsChangeNoBit) {
  for (const char* ranks : {"dp=3,gas=2", "dp=3,gas=2,reduce=microbatch"}) {
    for (int level = 0; level <= highest_level; ++level) {
      support::expect_bits_of(support::at_level({.layout = ranks}, level),
                              {"bucket=1", "bucket=20000,overlap=false", "bucket=1073741824"});
    }
  }
}

TEST(Zero, LevelsClipAlikeAndUpdateByEveryMethod) {
  for (const float clip : {0.0F, 1e-3F}) support::expect_bits_of({.layout = "dp=3,gas=2", .grad_clip = clip}, levels);
  for (const float momentum : {0.0F, 0.9F})
    support::expect_bits_of({.layout = "dp=3,gas=2", .optimizer = {.name = "sgd", .momentum = momentum}}, levels);
}

TEST(Zero, GatheringEarlyOrAtOnceChangesNoBit) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    LayoutRun run{.layout = "dp=3,gas=2", .model = model};
    run.model.layers = 4;
    const LayoutResult whole = support::learn(run);
    for (const layout::LeaseSize leases : {layout::LeaseSize::block, layout::LeaseSize::sub_layer}) {
      run.leases = leases;
      support::expect_bits_of(whole, support::at_level(run, 3),
                              {"prefetch=0", "prefetch=1", "prefetch=2", "prefetch=5", "prefetch=5,reshard=false"});
    }
  }
}

TEST(Zero, WhatIsMadeAgainChangesNoBit) {
  for (const char* ranks : {"dp=2,gas=2,recompute=selective", "dp=2,gas=2,recompute=full", "dp=2,gas=2,recompute=every:2"}) {
    LayoutRun run{.layout = ranks};
    run.model.layers = 5;
    support::expect_bits_of(run, levels);
  }
}

// Each host has all of what is cut, and the same shares count as without hosts.
TEST(Zero, HostsThatHaveAllPartsLearnTheSameBits) {
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
    for (const char* reduce : {"reduce=step,gas=2", "reduce=microbatch,gas=2", "reduce=step,gas=1", "reduce=microbatch,gas=1"}) {
      support::expect_bits_of(support::with({.layout = "dp=4,zero_group=node", .weights = weights}, reduce), levels);
    }
  }
}

// One cannot have what the other has: start values come from the seed, on every rank its own.
TEST(Zero, StateThatIsCutIsNotSentByOneRank) {
  support::on_layout({.layout = "dp=2,gas=2,zero=1"}, [](LayoutRank& rank) {
    rank.engine().initialise();
    EXPECT_THROW(rank.engine().broadcast_state(), BrokenRule);
    rank.engine().check_state();
  });
}

/// Saves on each number of ranks at each level, and goes on from there. Every number of ranks and level goes on from every number
/// of ranks, at one of its levels: the levels' files are equal.
void expect_any_layout_reads_any_other(const LayoutRun& like, const std::vector<int>& rank_counts) {
  const auto layout = [&](int ranks, int level) {
    return support::at_level(support::with(like, "gas=2,dp=" + std::to_string(ranks)), level);
  };
  for (const int ranks : rank_counts) {
    const TempFolder folder;
    const auto path = [&](int level) { return folder.path() / std::to_string(level); };
    const Saved whole = support::save(layout(ranks, 0), path(0));
    std::map<int, Gone> at_first;  // by ranks: what all levels must equal
    for (int from = 0; from <= highest_level; ++from) {
      const Saved saved = from == 0 ? whole : support::save(layout(ranks, from), path(from));
      support::expect_same_files(saved.folder, whole.folder);
      for (const int others : rank_counts) {
        for (int to = 0; to <= highest_level; ++to) {
          if ((from + to + others) % 4 != 0) continue;
          SCOPED_TRACE(testing::Message() << "from level " << from << " on " << ranks << " to level " << to << " on " << others);
          const Gone resumed = support::resume(layout(others, to), saved.folder);
          EXPECT_TRUE(support::same_bits(resumed.loaded.weights, whole.state.weights));
          EXPECT_TRUE(support::same_bits(resumed.loaded.slots, whole.state.slots));
          const Gone& first = at_first.try_emplace(others, resumed).first->second;
          support::expect_equal(resumed.after, first.after);
        }
      }
    }
    EXPECT_EQ(at_first.size(), rank_counts.size());
    const LayoutResult all = support::learn(layout(ranks, 0));
    EXPECT_EQ(all.losses.back(), at_first.at(ranks).after.losses.back());
    EXPECT_TRUE(support::same_bits(all.weights, at_first.at(ranks).after.weights));
  }
}

TEST(Zero, AnyLayoutReadsWhatAnyOtherSaved) {
  expect_any_layout_reads_any_other({.model = dropping(support::tiny_model())}, {1, 2, 3, 4});
}

TEST(Zero, HostsReadWhatAnyLayoutSavedAndWriteIt) {
  expect_any_layout_reads_any_other({.layout = "zero_group=node", .weights = support::bf16_with_masters}, {2, 4});
}

TEST(Zero, AnyLayoutReadsWhatAnyOtherSavedInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone})
    expect_any_layout_reads_any_other({.model = support::tiny_llama(), .weights = weights}, {1, 3});
}

}  // namespace
}  // namespace lockstep::train
