// Ranks that divide every layer learn what one rank learns.

#include <gtest/gtest.h>

#include <filesystem>

#include "support/counting_world.h"
#include "support/layout_run.h"
#include "support/temp_folder.h"
#include "train/sample.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

/// GPT-2 with biases; Llama, untied, with fewer KV heads than heads; Qwen2, tied, with biases of q, k and v alone and one KV
/// head.
std::vector<arch::ModelConfig> models() {
  std::vector<arch::ModelConfig> all{support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()};
  for (arch::ModelConfig& model : all) model.dropout = 0.2F;
  return all;
}

layout::ParallelPlan plan_of(int dp, int tp, bool sequence, int microbatches = 1) {
  return {.dp = dp, .tp = tp, .sequence = sequence, .microbatches = microbatches, .ranks_per_host = dp * tp};
}

std::string name_of(const LayoutRun& run) {
  return layout::describe(run.plan) + (run.model.tied ? " tied" : "") + " " + std::to_string(run.model.kv_heads) + " KV heads";
}

TEST(TensorParallel, RanksLearnWhatOneLearns) {
  for (const arch::ModelConfig& model : models()) {
    const LayoutResult one = support::learn(support::alone({.plan = plan_of(1, 1, false), .model = model}));
    for (const int tp : {2, 3}) {
      for (const bool sequence : {false, true}) {
        const LayoutRun run{.plan = plan_of(1, tp, sequence), .model = model};
        SCOPED_TRACE(name_of(run));
        support::expect_near(support::learn(run), one, 1e-5);
      }
    }
  }
}

TEST(TensorParallel, RanksThatDivideLayersAndSamplesLearnWhatOneLearns) {
  for (const arch::ModelConfig& model : models()) {
    for (const bool sequence : {false, true}) {
      const LayoutRun run{.plan = plan_of(2, 2, sequence, 2), .model = model};
      SCOPED_TRACE(name_of(run));
      support::expect_near(support::learn(run), support::learn(support::alone(run)), 1e-5);
    }
  }
}

// Of AdamW's first steps the noise in a gradient near zero is amplified: the losses are compared.
TEST(TensorParallel, LossesOfAdamWFollowThoseOfOneRank) {
  LayoutRun run{.plan = plan_of(1, 2, true), .optimizer = {.name = "AdamW"}, .steps = 20};
  const LayoutResult ranks = support::learn(run), one = support::learn(support::alone(run));
  for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(ranks.losses[i], one.losses[i], 1e-5 * one.losses[i]) << i;
}

TEST(TensorParallel, CutStateRecomputationAndReductionsChangeNoBit) {
  for (const bool sequence : {false, true}) {
    for (const layout::ReduceEvery reduce : {layout::ReduceEvery::step, layout::ReduceEvery::microbatch}) {
      LayoutRun run{.plan = plan_of(2, 2, sequence, 2), .model = models()[1]};
      run.plan.reduce = reduce;
      const LayoutResult whole = support::learn(run);
      for (int level = 1; level <= 3; ++level) {
        layout::set_zero_level(run.plan, level);
        SCOPED_TRACE(testing::Message() << name_of(run) << " zero " << level);
        support::expect_equal(support::learn(run), whole);
      }
      run.plan.recompute = {layout::Recompute::Kind::full};
      support::expect_equal(support::learn(run), whole);
    }
  }
}

TEST(TensorParallel, SumsInBf16AreRoundedOnce) {
  for (const bool sequence : {false, true}) {
    for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
      const LayoutRun run{.plan = plan_of(1, 2, sequence), .model = models()[0], .weights = weights, .steps = 1};
      support::expect_near(support::learn(run), support::learn(support::alone(run)), 2e-2);
    }
  }
}

TEST(TensorParallel, TheNormCountsEachElementOnce) {
  for (const arch::ModelConfig& model : models()) {
    for (const bool sequence : {false, true}) {
      const LayoutResult result = support::learn({.plan = plan_of(2, 3, sequence), .model = model, .samples = 1, .steps = 1});
      double squares = 0;
      for (const auto& [name, gradient] : result.gradients) {
        for (const float value : gradient) squares += static_cast<double>(value) * value;
      }
      EXPECT_NEAR(result.norms.front(), std::sqrt(squares), 1e-6 * std::sqrt(squares));
    }
  }
}

// Rank 1 alone has another gain.
TEST(TensorParallel, RanksThatStartWithDifferentGainsAreTold) {
  support::on_layout({.plan = plan_of(1, 2, true)}, [](LayoutRank& rank) {
    rank.engine().initialise();
    rank.engine().check_state();
    rank.engine().broadcast_state();
    if (!rank.lead()) elements<float>(support::parameters_of(rank.engine()).back().weight).front() = 2;
    EXPECT_THROW(rank.engine().check_state(), SystemError);
    EXPECT_THROW(rank.engine().broadcast_state(), SystemError);
  });
}

// Shares of the model are uneven, so that other elements of a unit are a rank's part.
TEST(TensorParallel, PartsOfStateThatIsCutAreNotComparedOverTensorRanks) {
  LayoutRun run{.plan = plan_of(2, 2, false)};
  layout::set_zero_level(run.plan, 1);
  support::on_layout(run, [](LayoutRank& rank) {
    rank.engine().initialise();
    EXPECT_NO_THROW(rank.engine().check_state());
  });
}

/// Two steps of a run, saved.
io::Path save(const LayoutRun& run, const io::Path& folder, LayoutResult& result) {
  std::filesystem::create_directories(folder);  // a save makes no run folder
  io::Path saved;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    support::take_steps(rank, 0, 2, result);
    rank.collect(result, false);
    const checkpoint::SaveReport report = save_run(folder, rank.engine(), {.step = 2}, Json::Object{}, rank.team());
    if (rank.lead()) saved = report.folder;
  });
  return saved;
}

/// What a layout reads of a checkpoint and saves again.
io::Path read_and_save(const LayoutRun& run, const io::Path& checkpoint, const io::Path& folder, LayoutResult& result) {
  std::filesystem::create_directories(folder);  // a save makes no run folder
  io::Path saved;
  support::on_layout(run, [&](LayoutRank& rank) {
    comm::Communicator& ranks = rank.groups().all();
    load_run(*checkpoint::open_together(ranks, checkpoint), rank.engine(), ranks, rank.team());
    rank.engine().check_state();
    rank.collect(result, false);
    const checkpoint::SaveReport report = save_run(folder, rank.engine(), {.step = 2}, Json::Object{}, rank.team());
    if (rank.lead()) saved = report.folder;
    support::take_steps(rank, 2, 4, result);
  });
  return saved;
}

TEST(TensorParallel, AnyLayoutReadsWhatAnotherSaved) {
  for (const arch::ModelConfig& model : models()) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
      std::vector<LayoutRun> runs;
      for (const layout::ParallelPlan& plan :
           {plan_of(1, 2, true, 2), plan_of(2, 1, false), plan_of(2, 3, false), plan_of(1, 1, false, 2)})
        runs.push_back({.plan = plan, .model = model, .weights = weights, .optimizer = {.name = "AdamW"}});
      layout::set_zero_level(runs[2].plan, 3);
      for (const std::size_t writer : {0U, 1U, 2U}) {
        const TempFolder folder;
        LayoutResult written;
        const io::Path checkpoint = save(runs[writer], folder.path() / "written", written);
        std::vector<double> losses;
        for (std::size_t reader = 0; reader < runs.size(); ++reader) {
          SCOPED_TRACE(testing::Message() << name_of(runs[writer]) << " read by " << name_of(runs[reader]));
          LayoutResult read;
          const io::Path again = read_and_save(runs[reader], checkpoint, folder.path() / std::to_string(reader), read);
          EXPECT_TRUE(read.weights == written.weights);
          EXPECT_TRUE(read.slots == written.slots);
          for (const std::string_view file : {checkpoint::model_file, checkpoint::optimizer_file})
            EXPECT_TRUE(io::read_file((again / file).string()) == io::read_file((checkpoint / file).string())) << file;
          if (losses.empty()) losses = read.losses;
          const double tolerance = weights.type == DType::f32 ? 1e-5 : 2e-2;
          if (runs[reader].plan.dp * runs[reader].plan.microbatches != 2) continue;
          for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(read.losses[i], losses[i], tolerance * losses[i]);
        }
      }
    }
  }
}

/// A text of the start values.
std::vector<std::int32_t> written_by(const LayoutRun& run) {
  std::vector<std::int32_t> text;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    TextSampler sampler(rank.engine().share());
    Arena workspace("sampling", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
    sampler.declare(workspace, cache);
    Ledger ledger;
    for (Arena* arena : {&workspace, &cache}) arena->commit(rank.runtime(), ledger);
    const std::vector<std::int32_t> prompt{1, 64, 3};
    sampler.run(prompt, {.tokens = 12, .temperature = 0.8, .seed = 5}, [&](std::int32_t token) {
      if (rank.lead()) text.push_back(token);
      return true;
    });
  });
  return text;
}

TEST(TensorParallel, RanksWriteTheTextOfOne) {
  for (const arch::ModelConfig& model : models()) {
    const std::vector<std::int32_t> one = written_by({.plan = plan_of(1, 1, false), .model = model});
    EXPECT_EQ(one.size(), 12U);
    for (const bool sequence : {false, true}) {
      for (const int level : {0, 3}) {
        LayoutRun run{.plan = plan_of(2, 3, sequence), .model = model};
        layout::set_zero_level(run.plan, level);
        EXPECT_EQ(written_by(run), one);
      }
    }
  }
}

/// Bytes that the collectives of the second step carry.
support::Carried carried_by_a_step(const LayoutRun& run) {
  support::Carried of_rank_0;
  comm::run_ranks(run.plan.ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
    support::Carried carried;
    support::CountingWorld counting(world, carried);
    LayoutRank rank(run, counting);
    rank.engine().initialise();
    rank.step(0);
    const support::Carried before = carried;
    rank.step(1);
    if (world.rank() > 0) return;
    of_rank_0 = {.reduced = carried.reduced - before.reduced,
                 .scattered = carried.scattered - before.scattered,
                 .gathered = carried.gathered - before.gathered};
  });
  return of_rank_0;
}

// An all_reduce of N elements sends 2 N (t - 1) / t, the others N (t - 1) / t: of a layer 8 and 10 times s b h (t - 1) / t.
TEST(TensorParallel, LayersSendFourSumsOrTenHalves) {
  for (const int tp : {2, 3}) {
    LayoutRun run{.plan = plan_of(1, tp, false), .model = support::tiny_model(), .samples = 3};
    run.model.layers = 5;
    const std::int64_t rows = run.samples * run.config().positions * run.model.width * 4, layers = run.model.layers;
    const support::Carried summed = carried_by_a_step(run);
    EXPECT_EQ(summed.reduced, (4 * layers + 2) * rows);  // beside layers: what is looked up, the gradient of the head's input
    EXPECT_EQ(summed.scattered + summed.gathered, 0);
    run.plan.sequence = true;
    const support::Carried split = carried_by_a_step(run);
    EXPECT_EQ(split.scattered, (4 * layers + 2) * rows);
    EXPECT_EQ(split.gathered, (6 * layers + 2) * rows);
    // Gains and biases, once a step.
    const std::int64_t whole = (6 * layers + 2 + run.model.block_size) * run.model.width * 4;
    EXPECT_EQ(split.reduced, whole);
  }
}

}  // namespace
}  // namespace lockstep::train
