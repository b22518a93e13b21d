// Ranks that divide every layer learn what one rank learns.

#include <gtest/gtest.h>

#include <filesystem>

#include "support/saved_run.h"
#include "support/temp_folder.h"
#include "support/traffic_of_a_step.h"
#include "train/sample.h"

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

LayoutRun run_of(const std::string& words, const arch::ModelConfig& model = support::tiny_model()) {
  return {.layout = words, .model = model, .optimizer = support::smooth, .samples = 2};
}

TEST(TensorParallel, RanksLearnWhatOneLearns) {
  for (const arch::ModelConfig& model : models()) {
    for (const char* ranks : {"tp=2", "tp=2,sequence", "tp=3", "tp=3,sequence"})
      support::expect_near_one_rank(run_of(ranks, model), 1e-5);
  }
}

TEST(TensorParallel, RanksThatDivideLayersAndSamplesLearnWhatOneLearns) {
  for (const arch::ModelConfig& model : models()) {
    for (const char* ranks : {"dp=2,tp=2,gas=2", "dp=2,tp=2,gas=2,sequence"})
      support::expect_near_one_rank(run_of(ranks, model), 1e-5);
  }
}

// AdamW's first steps amplify the noise in a gradient near zero: losses are compared, not weights.
TEST(TensorParallel, LossesOfAdamWFollowThoseOfOneRank) {
  const LayoutRun run{.layout = "tp=2,sequence", .samples = 2, .steps = 20};
  const LayoutResult ranks = support::learn(run), one = support::learn(support::alone(run));
  for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(ranks.losses[i], one.losses[i], 1e-5 * one.losses[i]) << i;
}

TEST(TensorParallel, CutStateRecomputationAndReductionsChangeNoBit) {
  for (const char* ranks : {"dp=2,tp=2,gas=2", "dp=2,tp=2,gas=2,sequence", "dp=2,tp=2,gas=2,reduce=microbatch",
                            "dp=2,tp=2,gas=2,sequence,reduce=microbatch"})
    support::expect_bits_of(run_of(ranks, models()[1]), {"zero=1", "zero=2", "zero=3", "zero=3,recompute=full"});
}

TEST(TensorParallel, SumsInBf16AreRoundedOnce) {
  for (const char* ranks : {"tp=2", "tp=2,sequence"}) {
    for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
      LayoutRun run = run_of(ranks, models()[0]);
      run.weights = weights;
      run.steps = 1;
      support::expect_near_one_rank(run, 2e-2);
    }
  }
}

TEST(TensorParallel, TheNormCountsEachElementOnce) {
  for (const arch::ModelConfig& model : models()) {
    for (const char* ranks : {"dp=2,tp=3", "dp=2,tp=3,sequence"}) {
      const LayoutResult result = support::learn({.layout = ranks, .model = model, .steps = 1});
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
  support::on_layout(run_of("tp=2,sequence"), [](LayoutRank& rank) {
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
  support::on_layout(run_of("dp=2,tp=2,zero=1"), [](LayoutRank& rank) {
    rank.engine().initialise();
    EXPECT_NO_THROW(rank.engine().check_state());
  });
}

TEST(TensorParallel, AnyLayoutReadsWhatAnotherSaved) {
  const std::vector<std::string> layouts{"tp=2,sequence,gas=2", "dp=2", "dp=2,tp=3,zero=3", "gas=2"};
  for (const arch::ModelConfig& model : models()) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
      const auto run_of = [&](const std::string& words) {
        return LayoutRun{.layout = words, .model = model, .weights = weights, .samples = 2};
      };
      for (const std::size_t writer : {0U, 1U, 2U}) {
        const TempFolder folder;
        const support::Saved written = support::save(run_of(layouts[writer]), folder.path() / "written");
        std::vector<double> losses;
        for (const std::string& reader : layouts) {
          SCOPED_TRACE(layouts[writer] + " read by " + reader);
          io::Path again;
          std::filesystem::create_directories(folder.path() / reader);  // a save makes no run folder
          const auto read_and_save = [&](LayoutRank& rank) {
            support::load(rank, written.folder);
            support::save_rank(rank, folder.path() / reader, support::saved_steps, again);
          };
          const support::Gone read = support::go_on(run_of(reader), read_and_save, support::saved_steps, 2);
          EXPECT_TRUE(support::same_bits(read.loaded.weights, written.state.weights));
          EXPECT_TRUE(support::same_bits(read.loaded.slots, written.state.slots));
          support::expect_same_files(again, written.folder);
          if (losses.empty()) losses = read.after.losses;
          const double tolerance = weights.type == DType::f32 ? 1e-5 : 2e-2;
          for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(read.after.losses[i], losses[i], tolerance * losses[i]);
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
    const std::vector<std::int32_t> one = written_by(run_of("", model));
    EXPECT_EQ(one.size(), 12U);
    for (const char* ranks : {"dp=2,tp=3", "dp=2,tp=3,zero=3", "dp=2,tp=3,sequence", "dp=2,tp=3,sequence,zero=3"})
      EXPECT_EQ(written_by(run_of(ranks, model)), one);
  }
}

// Each of t ranks sends `2 N (t - 1) / t` in an all-reduce of N elements, and half of that in a reduce-scatter or an all-gather.
// A layer's four sums send `8 s b h (t - 1) / t`, and its ten halves `10 s b h (t - 1) / t`. There are s positions of b samples
// that are h wide.
TEST(TensorParallel, LayersSendFourSumsOrTenHalves) {
  for (const int tp : {2, 3}) {
    LayoutRun run{.layout = "tp=" + std::to_string(tp), .samples = 3};
    run.model.layers = 5;
    const std::int64_t rows = run.samples * run.config().positions * run.model.width * 4, layers = run.model.layers;
    using enum comm::Collective;
    using enum comm::Purpose;
    const comm::Traffic summed = support::traffic_of_a_step(run);
    // Beside layers: what is looked up, the gradient of the head's input.
    EXPECT_EQ(summed.at(activations, all_reduce).sent, 2 * (tp - 1) * (4 * layers + 2) * rows);
    EXPECT_EQ(summed.of(activations).sent, summed.at(activations, all_reduce).sent);
    const comm::Traffic split = support::traffic_of_a_step(support::with(run, "sequence"));
    EXPECT_EQ(split.at(activations, reduce_scatter).sent, (tp - 1) * (4 * layers + 2) * rows);
    EXPECT_EQ(split.at(activations, all_gather).sent, (tp - 1) * (6 * layers + 2) * rows);
    // Gains and biases, once a step.
    const std::int64_t whole = (6 * layers + 2 + run.model.block_size) * run.model.width * 4;
    EXPECT_EQ(split.of(gradients).sent, 2 * (tp - 1) * whole);
  }
}

}  // namespace
}  // namespace lockstep::train
