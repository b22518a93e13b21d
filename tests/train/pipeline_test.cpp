// Pipelines: whatever their degree, schedule and cut of the layers, a run learns the bits of one rank with the same
// micro-batches.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "support/schedules.h"
#include "support/temp_folder.h"
#include "support/zero_run.h"
#include "train/sample.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using support::ZeroRank;
using support::ZeroResult;
using support::ZeroRun;

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

/// The run in pipelines of `stages` ranks learns what it learns without.
void expect_bits_of_one(ZeroRun run, int stages) {
  SCOPED_TRACE(testing::Message() << run.schedule << " on " << stages << " stages, " << run.ranks << " replicas, level "
                                  << run.level);
  const std::string schedule = std::exchange(run.schedule, "1f1b");
  const std::vector<std::int64_t> split = std::exchange(run.split, {});
  run.stages = 1;
  const ZeroResult one = support::learn(run);
  run.stages = stages;
  run.schedule = schedule;
  run.split = split;
  support::expect_equal(support::learn(run), one);
}

/// Calls `each` with the name of every schedule that so many ranks can have with these micro-batches.
template <class Each>
void for_each_schedule(int stages, const Each& each) {
  for (const layout::NamedSchedule& schedule : layout::schedules()) {
    const layout::PipelineShape shape{stages, usual_chunks(schedule, stages), microbatches};
    if (check(schedule, shape).empty()) each(std::string(schedule.name));
  }
}

TEST(Pipeline, EverySchedulesRanksLearnTheBitsOfOne) {
  for (const arch::ModelConfig& model : models()) {
    for (const int stages : {2, 3}) {
      for_each_schedule(stages, [&](const std::string& schedule) {
        expect_bits_of_one({.ranks = 1, .model = model, .microbatches = microbatches, .schedule = schedule}, stages);
      });
    }
  }
}

TEST(Pipeline, ReplicasOfAPipelineLearnTheBitsOfReplicas) {
  for (const arch::ModelConfig& model : {deep(support::tiny_model()), deep(support::tiny_llama())}) {
    for_each_schedule(2, [&](const std::string& schedule) {
      expect_bits_of_one({.ranks = 2, .model = model, .microbatches = microbatches, .schedule = schedule}, 2);
    });
  }
}

TEST(Pipeline, StatesThatReplicasCutChangeNoBit) {
  for (const arch::ModelConfig& model : {deep(dropping(support::tiny_model())), deep(support::tiny_llama())}) {
    for (const std::string schedule : {"1f1b", "interleaved", "zb-h1", "zb-v"}) {
      for (int level = 1; level <= 3; ++level) {
        expect_bits_of_one({.ranks = 2, .level = level, .model = model, .microbatches = microbatches, .schedule = schedule}, 2);
      }
    }
  }
}

// One micro-batch, or each reduced apart: gradients take turns where none comes late.
TEST(Pipeline, GradientsThatAreReducedApartHaveTheSameBits) {
  for (const std::string schedule : {"1f1b", "breadth-first", "zb-h1", "zb-v"}) {
    for (const int level : {0, 2, 3}) {
      for (const int count : {1, 3}) {
        expect_bits_of_one({.ranks = 2,
                            .level = level,
                            .model = deep(support::tiny_qwen2()),
                            .reduce = layout::ReduceEvery::microbatch,
                            .microbatches = count,
                            .gradients = {.bucket_bytes = 1},
                            .schedule = schedule},
                           2);
      }
    }
  }
}

TEST(Pipeline, LearnsTheSameBitsInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
    for (const arch::ModelConfig& model : models()) {
      for (const std::string schedule : {"1f1b", "zb-v"}) {
        expect_bits_of_one({.ranks = 1, .model = model, .weights = weights, .microbatches = microbatches, .schedule = schedule},
                           2);
      }
    }
  }
}

TEST(Pipeline, WhatIsMadeAgainChangesNoBit) {
  for (const layout::Recompute& recompute : support::recomputations()) {
    for (const std::string schedule : {"gpipe", "interleaved", "zb-h1"}) {
      expect_bits_of_one({.ranks = 1,
                          .model = deep(dropping(support::tiny_model())),
                          .microbatches = microbatches,
                          .recompute = recompute,
                          .schedule = schedule},
                         2);
    }
  }
}

TEST(Pipeline, StagesMayHaveDifferentNumbersOfLayers) {
  const std::map<std::string, std::vector<std::int64_t>> splits{
      {"1f1b", {5, 1, 2}}, {"zb-h1", {1, 1, 6}}, {"interleaved", {2, 1, 1, 1, 2, 1}}, {"zb-v", {1, 2, 1, 1, 1, 2}}};
  for (const auto& [schedule, split] : splits) {
    for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
      expect_bits_of_one(
          {.ranks = 1, .model = deep(model, 8), .microbatches = microbatches, .schedule = schedule, .split = split}, 3);
    }
  }
}

TEST(Pipeline, ClipsAlikeAndUpdatesByEveryMethod) {
  for (const float clip : {0.0F, 1e-3F})
    expect_bits_of_one({.ranks = 2, .model = deep(support::tiny_model()), .microbatches = 3, .grad_clip = clip}, 2);
  for (const float momentum : {0.0F, 0.9F}) {
    expect_bits_of_one(
        {.ranks = 1, .model = deep(support::tiny_qwen2()), .optimizer = {.name = "sgd", .momentum = momentum}, .microbatches = 3},
        3);
  }
}

TEST(Pipeline, RunsTheTableOfAFile) {
  const layout::PipelineShape shape{3, 2, microbatches};
  const std::string text = layout::write_action_table(layout::find_schedule("interleaved")->passes(shape));
  ZeroRun run{.ranks = 1, .model = deep(support::tiny_qwen2()), .microbatches = microbatches};
  const ZeroResult one = support::learn(run);
  run.stages = 3;
  run.table = layout::read_action_table(text, "table");
  support::expect_equal(support::learn(run), one);
}

/// Two steps of a run, saved into `folder`.
io::Path save(const ZeroRun& run, const io::Path& folder) {
  std::filesystem::create_directories(folder);  // a save makes no run folder
  io::Path checkpoint;
  support::on_zero_ranks(run, [&](ZeroRank& rank) {
    ZeroResult ignored;
    rank.engine().initialise();
    support::train(rank, 0, 2, ignored);
    const checkpoint::SaveReport report = save_run(folder, rank.engine(), {.step = 2}, Json::Object{}, rank.team());
    if (rank.rank() == 0) checkpoint = report.folder;
  });
  return checkpoint;
}

/// One step more, from a checkpoint.
ZeroResult resume(const ZeroRun& run, const io::Path& checkpoint) {
  ZeroResult result;
  support::on_zero_ranks(run, [&](ZeroRank& rank) {
    load_run(*checkpoint::open_together(rank.engine().groups().all(), checkpoint), rank.engine(), rank.engine().groups().all(),
             rank.team());
    rank.engine().check_state();
    support::train(rank, 2, 3, result);
    rank.collect(result);
  });
  return result;
}

// What each layout saves has the bytes of one rank's files, and each goes on from another's.
TEST(Pipeline, AnyLayoutReadsWhatAnyOtherSaved) {
  for (const arch::ModelConfig& model : {deep(dropping(support::tiny_model())), deep(support::tiny_llama())}) {
    const ZeroRun one{.ranks = 1, .model = model, .microbatches = microbatches};
    std::vector<ZeroRun> runs{one};
    for (const std::string schedule : {"1f1b", "zb-v", "interleaved"}) {
      runs.push_back(one);
      runs.back().stages = schedule == "1f1b" ? 3 : 2;
      runs.back().schedule = schedule;
    }
    const TempFolder folder;
    std::vector<io::Path> saved;
    for (std::size_t i = 0; i < runs.size(); ++i) saved.push_back(save(runs[i], folder.path() / std::to_string(i)));
    const ZeroResult after = resume(one, saved.front());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file})
        EXPECT_TRUE(io::read_file(saved[i] / name) == io::read_file(saved.front() / name)) << runs[i].schedule << name;
      support::expect_equal(resume(runs[i], saved[(i + 1) % saved.size()]), after);
    }
  }
}

TEST(Pipeline, StagesWithReplicasThatCutTheirStateReadWhatOneRankSaved) {
  const arch::ModelConfig model = deep(support::tiny_qwen2());
  for (const int level : {1, 3}) {
    const TempFolder folder;
    const ZeroRun two{.ranks = 2, .level = level, .model = model};
    ZeroRun four = two;
    four.stages = 2;
    const io::Path of_two = save(two, folder.path() / "two"), of_four = save(four, folder.path() / "four");
    for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file})
      EXPECT_TRUE(io::read_file(of_two / name) == io::read_file(of_four / name)) << name;
    support::expect_equal(resume(four, of_two), resume(two, of_four));
  }
}

/// What the ranks of a pipeline write, each of them.
std::vector<std::vector<std::int32_t>> written(const ZeroRun& run) {
  std::vector<std::vector<std::int32_t>> texts(static_cast<std::size_t>(run.stages));
  support::on_zero_ranks(run, [&](ZeroRank& rank) {
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
    ZeroRun run{.ranks = 1, .model = model, .microbatches = microbatches};
    const std::vector<std::int32_t> one = written(run).front();
    EXPECT_EQ(one.size(), 9U);
    for (const int stages : {2, 3}) {
      run.stages = stages;
      for_each_schedule(stages, [&](const std::string& schedule) {
        run.schedule = schedule;
        for (const std::vector<std::int32_t>& text : written(run)) EXPECT_EQ(text, one) << schedule << " on " << stages;
      });
    }
  }
}

TEST(Pipeline, StagesThatHaveDifferentTiedMatricesAreToldApart) {
  const ZeroRun run{.ranks = 1, .model = deep(support::tiny_model()), .microbatches = microbatches, .stages = 3};
  support::on_zero_ranks(run, [](ZeroRank& rank) {
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
  ZeroRun run{.ranks = 2, .model = deep(support::tiny_model()), .microbatches = microbatches, .stages = 2};
  support::on_zero_ranks(run, [](ZeroRank& rank) { rank.engine().match_ranks(); });
  std::string message;
  try {
    comm::run_ranks(4, {.timeout = 60}, [&](comm::Communicator& world) {
      ZeroRun own = run;
      if (world.rank() >= 2) own.microbatches = 3;  // the last stage's ranks expect fewer
      ZeroRank(own, world).engine().match_ranks();
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
