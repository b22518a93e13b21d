// Pipelines: whatever their degree, schedule and cut of the layers, a run learns the bits of one rank with the same
// micro-batches.

#include <gtest/gtest.h>

#include "support/saved_run.h"
#include "support/temp_folder.h"
#include "train/sample.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

constexpr int microbatches = 4;

arch::ModelConfig deep(arch::ModelConfig model, std::int64_t layers = 6) {
  model.layers = layers;
  return model;
}

arch::ModelConfig dropping(arch::ModelConfig model) {
  model.dropout = 0.2F;
  return model;
}

std::vector<arch::ModelConfig> models() {
  return {deep(dropping(support::tiny_model())), deep(support::tiny_llama()), deep(support::tiny_qwen2())};
}

/// The words of every schedule that so many ranks can have with these micro-batches.
std::vector<std::string> pipelines_of(int ranks) {
  std::vector<std::string> all;
  for (const layout::NamedSchedule& schedule : layout::schedules()) {
    const layout::PipelineShape shape{ranks, usual_chunks(schedule, ranks), microbatches};
    if (check(schedule, shape).empty()) all.push_back("pp=" + std::to_string(ranks) + ",schedule=" + std::string(schedule.name));
  }
  return all;
}

TEST(Pipeline, EverySchedulesRanksLearnTheBitsOfOne) {
  for (const arch::ModelConfig& model : models()) {
    const LayoutRun run{.layout = "gas=4", .model = model};
    const LayoutResult one = support::learn(run);
    for (const int ranks : {2, 3}) support::expect_bits_of(one, run, pipelines_of(ranks));
  }
}

TEST(Pipeline, ReplicasOfAPipelineLearnTheBitsOfReplicas) {
  for (const arch::ModelConfig& model : {deep(support::tiny_model()), deep(support::tiny_llama())})
    support::expect_bits_of({.layout = "dp=2,gas=4", .model = model}, pipelines_of(2));
}

TEST(Pipeline, StatesThatReplicasCutChangeNoBit) {
  for (const arch::ModelConfig& model : {deep(dropping(support::tiny_model())), deep(support::tiny_llama())}) {
    for (int level = 1; level <= 3; ++level) {
      support::expect_bits_of(support::at_level({.layout = "dp=2,gas=4", .model = model}, level),
                              {"pp=2", "pp=2,schedule=interleaved", "pp=2,schedule=zb-h1", "pp=2,schedule=zb-v"});
    }
  }
}

// One micro-batch, or each reduced apart: gradients take turns where none comes late.
TEST(Pipeline, GradientsThatAreReducedApartHaveTheSameBits) {
  for (const int level : {0, 2, 3}) {
    for (const char* batches : {"dp=2,bucket=1,reduce=microbatch,gas=1", "dp=2,bucket=1,reduce=microbatch,gas=3"}) {
      support::expect_bits_of(support::at_level({.layout = batches, .model = deep(support::tiny_qwen2())}, level),
                              {"pp=2", "pp=2,schedule=breadth-first", "pp=2,schedule=zb-h1", "pp=2,schedule=zb-v"});
    }
  }
}

TEST(Pipeline, LearnsTheSameBitsInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
    for (const arch::ModelConfig& model : models())
      support::expect_bits_of({.layout = "gas=4", .model = model, .weights = weights}, {"pp=2", "pp=2,schedule=zb-v"});
  }
}

TEST(Pipeline, WhatIsMadeAgainChangesNoBit) {
  for (const char* recompute : {"recompute=selective", "recompute=full", "recompute=every:2", "recompute=every:3"}) {
    support::expect_bits_of(support::with({.layout = "gas=4", .model = deep(dropping(support::tiny_model()))}, recompute),
                            {"pp=2,schedule=gpipe", "pp=2,schedule=interleaved", "pp=2,schedule=zb-h1"});
  }
}

TEST(Pipeline, StagesMayHaveDifferentNumbersOfLayers) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    support::expect_bits_of({.layout = "gas=4", .model = deep(model, 8)},
                            {"pp=3,split=5+1+2", "pp=3,schedule=zb-h1,split=1+1+6", "pp=3,schedule=interleaved,split=2+1+1+1+2+1",
                             "pp=3,schedule=zb-v,split=1+2+1+1+1+2"});
  }
}

TEST(Pipeline, ClipsAlikeAndUpdatesByEveryMethod) {
  for (const float clip : {0.0F, 1e-3F})
    support::expect_bits_of({.layout = "dp=2,gas=3", .model = deep(support::tiny_model()), .grad_clip = clip}, {"pp=2"});
  for (const float momentum : {0.0F, 0.9F}) {
    support::expect_bits_of(
        {.layout = "gas=3", .model = deep(support::tiny_qwen2()), .optimizer = {.name = "sgd", .momentum = momentum}}, {"pp=3"});
  }
}

TEST(Pipeline, RunsTheTableOfAFile) {
  const layout::PipelineShape shape{3, 2, microbatches};
  const std::string text = layout::write_action_table(layout::find_schedule("interleaved")->passes(shape));
  LayoutRun run{.layout = "gas=4", .model = deep(support::tiny_qwen2())};
  const LayoutResult one = support::learn(run);
  run.table = layout::read_action_table(text, "table");
  support::expect_bits_of(one, run, {"pp=3"});
}

// What each layout saves has the bytes of one rank's files, and each goes on from another's.
TEST(Pipeline, AnyLayoutReadsWhatAnyOtherSaved) {
  for (const arch::ModelConfig& model : {deep(dropping(support::tiny_model())), deep(support::tiny_llama())}) {
    const LayoutRun one{.layout = "gas=4", .model = model};
    std::vector<LayoutRun> runs{one};
    for (const char* pipeline : {"pp=3", "pp=2,schedule=zb-v", "pp=2,schedule=interleaved"})
      runs.push_back(support::with(one, pipeline));
    const TempFolder folder;
    std::vector<io::Path> saved;
    for (std::size_t i = 0; i < runs.size(); ++i)
      saved.push_back(support::save(runs[i], folder.path() / std::to_string(i)).folder);
    const LayoutResult after = support::resume(one, saved.front()).after;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      SCOPED_TRACE(runs[i].layout);
      support::expect_same_files(saved[i], saved.front());
      support::expect_equal(support::resume(runs[i], saved[(i + 1) % saved.size()]).after, after);
    }
  }
}

TEST(Pipeline, StagesWithReplicasThatCutTheirStateReadWhatOneRankSaved) {
  for (const char* layout : {"dp=2,gas=2,zero=1", "dp=2,gas=2,zero=3"}) {
    const TempFolder folder;
    const LayoutRun two{.layout = layout, .model = deep(support::tiny_qwen2())}, four = support::with(two, "pp=2");
    const io::Path of_two = support::save(two, folder.path() / "two").folder,
                   of_four = support::save(four, folder.path() / "four").folder;
    support::expect_same_files(of_two, of_four);
    support::expect_equal(support::resume(four, of_two).after, support::resume(two, of_four).after);
  }
}

/// What the ranks of a pipeline write, each of them.
std::vector<std::vector<std::int32_t>> written(const LayoutRun& run) {
  std::vector<std::vector<std::int32_t>> texts(static_cast<std::size_t>(run.plan().pp));
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    Arena workspace("sampling", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
    TextSampler sampler(rank.engine().share());
    sampler.declare(workspace, cache);
    Ledger ledger;
    for (Arena* arena : {&workspace, &cache}) arena->commit(rank.runtime(), ledger);
    const std::vector<std::int32_t> prompt{3, 1, 4};
    sampler.run(prompt, {.tokens = 9}, [&](std::int32_t token) {  // beyond the model's context
      texts[static_cast<std::size_t>(rank.rank())].push_back(token);
      return true;
    });
  });
  return texts;
}

TEST(Pipeline, EveryStageKnowsTheTextThatOneRankWrites) {
  for (const arch::ModelConfig& model : models()) {
    const LayoutRun run{.layout = "gas=4", .model = model};
    const std::vector<std::int32_t> one = written(run).front();
    EXPECT_EQ(one.size(), 9U);
    for (const int ranks : {2, 3}) {
      for (const std::string& pipeline : pipelines_of(ranks)) {
        for (const std::vector<std::int32_t>& text : written(support::with(run, pipeline))) EXPECT_EQ(text, one) << pipeline;
      }
    }
  }
}

TEST(Pipeline, StagesThatHaveDifferentTiedMatricesAreToldApart) {
  const LayoutRun run{.layout = "pp=3,gas=4", .model = deep(support::tiny_model())};
  support::on_layout(run, [](LayoutRank& rank) {
    rank.engine().initialise();
    rank.engine().check_state();
    const UnitIndex tied = arch::unit_map(rank.engine().config().model).tied;
    rank.engine().state().for_each({.changes = true}, [&](const parallel::StateRange& range) {
      if (rank.rank() == 2 && range.unit == tied) elements<float>(range.master)[7] += 1;
    });
    EXPECT_THROW(rank.engine().check_state(), SystemError);
  });
}

TEST(Pipeline, ListsAreMatchedBeforeTheFirstStep) {
  const LayoutRun run{.layout = "dp=2,pp=2,gas=4", .model = deep(support::tiny_model())};
  support::on_layout(run, [](LayoutRank& rank) { rank.engine().match_ranks(); });
  std::string message;
  try {
    comm::run_ranks(4, {.timeout = 60}, [&](comm::Communicator& world) {
      const LayoutRun fewer = support::with(run, "gas=3");  // which the last stage's ranks expect
      LayoutRank(world.rank() < 2 ? run : fewer, world).engine().match_ranks();
    });
  } catch (const SystemError& error) {
    message = error.what();
  }
  EXPECT_NE(
      message.find("the lists of the pipeline's ranks do not match: message 4 from rank 0 to rank 1: rank 0 sends the output "
                   "of stage 0 for micro-batch 3, rank 1 receives nothing"),
      std::string::npos)
      << message;
}

}  // namespace
}  // namespace lockstep::train
