// State that ranks cut among them: whatever is cut, however far, a run learns the same bits.

#include <gtest/gtest.h>

#include <map>

#include "support/saved_run.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using layout::CutOver;
using support::Gone;
using support::Saved;
using support::ZeroRank;
using support::ZeroResult;
using support::ZeroRun;

constexpr int highest_level = 3;

arch::ModelConfig dropping(arch::ModelConfig model) {
  model.dropout = 0.2F;
  return model;
}

void expect_alike_at_all_levels(ZeroRun run) {
  run.level = 0;
  const ZeroResult whole = support::learn(run);
  for (run.level = 1; run.level <= highest_level; ++run.level) {
    SCOPED_TRACE(testing::Message() << "level " << run.level << " on " << run.ranks);
    support::expect_equal(support::learn(run), whole);
  }
}

// Units of 256 elements and less among them: a rank may have nothing of one.
TEST(Zero, LevelsLearnTheSameBits) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()}) {
    for (const int ranks : {1, 2, 3, 4}) expect_alike_at_all_levels({.ranks = ranks, .model = dropping(model)});
  }
}

TEST(Zero, LevelsLearnTheSameBitsInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
    for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_qwen2()})
      expect_alike_at_all_levels({.ranks = 3, .model = model, .weights = weights});
  }
}

// What is drawn for an element depends on its place in the whole parameter, not in a rank's part.
TEST(Zero, LevelsRoundStochasticallyAlike) {
  OptimizerSettings rounded;
  rounded.moments = DType::bf16;
  rounded.rounding = Rounding::stochastic;
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_alone}) {
    for (const int ranks : {2, 3}) expect_alike_at_all_levels({.ranks = ranks, .weights = weights, .optimizer = rounded});
  }
}

TEST(Zero, LevelsReduceEachMicroBatchAlike) {
  for (const int microbatches : {1, 3}) {
    for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
      expect_alike_at_all_levels(
          {.ranks = 4, .model = model, .reduce = layout::ReduceEvery::microbatch, .microbatches = microbatches});
    }
  }
}

TEST(Zero, OverlapAndBucketsChangeNoBit) {
  for (const layout::ReduceEvery reduce : {layout::ReduceEvery::step, layout::ReduceEvery::microbatch}) {
    for (int level = 0; level <= highest_level; ++level) {
      ZeroRun run{.ranks = 3, .level = level, .reduce = reduce};
      const ZeroResult first = support::learn(run);
      for (const std::int64_t bytes : {1, 20000, 1 << 30}) {
        run.gradients = {.bucket_bytes = bytes, .overlap = bytes != 20000};
        support::expect_equal(support::learn(run), first);
      }
    }
  }
}

TEST(Zero, LevelsClipAlikeAndUpdateByEveryMethod) {
  for (const float clip : {0.0F, 1e-3F}) expect_alike_at_all_levels({.ranks = 3, .grad_clip = clip});
  for (const float momentum : {0.0F, 0.9F})
    expect_alike_at_all_levels({.ranks = 3, .optimizer = {.name = "sgd", .momentum = momentum}});
}

TEST(Zero, GatheringEarlyOrAtOnceChangesNoBit) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    ZeroRun run{.ranks = 3, .model = model};
    run.model.layers = 4;
    const ZeroResult whole = support::learn(run);
    run.level = 3;
    for (const layout::LeaseSize leases : {layout::LeaseSize::block, layout::LeaseSize::sub_layer}) {
      run.leases = leases;
      run.reshard_after_forward = true;
      for (const int prefetch : {0, 1, 2, 5}) {
        run.prefetch = prefetch;
        support::expect_equal(support::learn(run), whole);
      }
      run.reshard_after_forward = false;
      support::expect_equal(support::learn(run), whole);
    }
  }
}

TEST(Zero, WhatIsMadeAgainChangesNoBit) {
  using Kind = layout::Recompute::Kind;
  for (const layout::Recompute& recompute :
       {layout::Recompute{Kind::selective}, layout::Recompute{Kind::full}, layout::Recompute{Kind::full, 2}}) {
    ZeroRun run{.ranks = 2, .recompute = recompute};
    run.model.layers = 5;
    expect_alike_at_all_levels(run);
  }
}

// Each host has all of what is cut, and the same shares count as without hosts.
TEST(Zero, HostsThatHaveAllPartsLearnTheSameBits) {
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
    for (const layout::ReduceEvery reduce : {layout::ReduceEvery::step, layout::ReduceEvery::microbatch}) {
      expect_alike_at_all_levels({.ranks = 4, .over = CutOver::host, .weights = weights, .reduce = reduce});
      expect_alike_at_all_levels({.ranks = 4, .over = CutOver::host, .weights = weights, .reduce = reduce, .microbatches = 1});
    }
  }
}

// One cannot have what the other has: start values come from the seed, on every rank its own.
TEST(Zero, StateThatIsCutIsNotSentByOneRank) {
  support::on_zero_ranks({.level = 1}, [](ZeroRank& rank) {
    rank.engine().initialise();
    EXPECT_THROW(rank.engine().broadcast_state(), BrokenRule);
    rank.engine().check_state();
  });
}

void expect_same_files(const io::Path& one, const io::Path& other) {
  for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file})
    EXPECT_TRUE(io::read_file(one / name) == io::read_file(other / name)) << name;
}

/// Saves on each number of ranks at each level, and goes on from there on other pairs: on all of them from one level or another,
/// for the levels' files are equal.
void expect_any_layout_reads_any_other(const ZeroRun& like, const std::vector<int>& rank_counts) {
  const auto layout = [&](int ranks, int level) {
    ZeroRun run = like;
    run.ranks = ranks;
    run.level = level;
    return run;
  };
  for (const int ranks : rank_counts) {
    const TempFolder folder;
    const auto path = [&](int level) { return folder.path() / std::to_string(level); };
    const Saved whole = support::save(layout(ranks, 0), path(0));
    std::map<int, Gone> at_first;  // by ranks: what all levels must equal
    for (int from = 0; from <= highest_level; ++from) {
      const Saved saved = from == 0 ? whole : support::save(layout(ranks, from), path(from));
      expect_same_files(saved.folder, whole.folder);
      for (const int others : rank_counts) {
        for (int to = 0; to <= highest_level; ++to) {
          if ((from + to + others) % 4 != 0) continue;
          SCOPED_TRACE(testing::Message() << "from level " << from << " on " << ranks << " to level " << to << " on " << others);
          const Gone resumed = support::resume(layout(others, to), saved.folder);
          EXPECT_TRUE(resumed.loaded.masters == whole.state.masters);
          EXPECT_TRUE(resumed.loaded.slots == whole.state.slots);
          const Gone& first = at_first.try_emplace(others, resumed).first->second;
          support::expect_equal(resumed.after, first.after);
        }
      }
    }
    EXPECT_EQ(at_first.size(), rank_counts.size());
    ZeroRun uninterrupted = layout(ranks, 0);
    uninterrupted.steps = 3;
    const ZeroResult all = support::learn(uninterrupted);
    EXPECT_EQ(all.losses.back(), at_first.at(ranks).after.losses.back());
    EXPECT_TRUE(all.masters == at_first.at(ranks).after.masters);
  }
}

TEST(Zero, AnyLayoutReadsWhatAnyOtherSaved) {
  expect_any_layout_reads_any_other({.model = dropping(support::tiny_model())}, {1, 2, 3, 4});
}

TEST(Zero, HostsReadWhatAnyLayoutSavedAndWriteIt) {
  expect_any_layout_reads_any_other({.over = CutOver::host, .weights = support::bf16_with_masters}, {2, 4});
}

TEST(Zero, AnyLayoutReadsWhatAnyOtherSavedInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone})
    expect_any_layout_reads_any_other({.model = support::tiny_llama(), .weights = weights}, {1, 3});
}

}  // namespace
}  // namespace lockstep::train
