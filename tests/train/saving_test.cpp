// Saves that go on while a run does: the files of a save that stopped it, and not a bit of the run changed.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "checkpoint/find.h"
#include "comm/thread/thread_world.h"
#include "support/far_device.h"
#include "support/layout_run.h"
#include "support/temp_folder.h"
#include "support/tiny_trainer.h"
#include "train/replicas.h"
#include "train/saving/running_save.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

std::vector<std::string> files_of(const io::Path& checkpoint) {
  std::vector<std::string> files;
  for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file, checkpoint::manifest_file})
    files.push_back(io::read_file(checkpoint / name));
  return files;
}

/// The files of steps 2 and 4, and where the run gets.
struct Left {
  std::vector<std::vector<std::string>> files;
  LayoutResult end;
};

/// Six steps, with saves behind the second and the fourth.
Left saved(const LayoutRun& run, bool beside) {
  const TempFolder folder;
  Left left;
  support::on_layout(run, [&](LayoutRank& rank) {
    Engine& engine = rank.engine();
    engine.initialise();
    support::take_steps(rank, 0, 2, left.end);
    for (int step = 2; step <= 4; step += 2) {
      const RunState state{.step = step};
      if (beside) {
        RunningSave save(folder.path(), engine, state, Json::Object{}, rank.team());
        support::take_steps(rank, step, step + 2, left.end);
        EXPECT_EQ(save.finish().folder, folder.path() / "checkpoints" / checkpoint::folder_name(step));
      } else {
        save_run(folder.path(), engine, state, Json::Object{}, rank.team());
        support::take_steps(rank, step, step + 2, left.end);
      }
    }
    rank.collect(left.end);
    const double evaluated = rank.evaluate();
    if (rank.lead()) left.end.evaluated = evaluated;
  });
  for (const int step : {2, 4}) left.files.push_back(files_of(folder.path() / "checkpoints" / checkpoint::folder_name(step)));
  return left;
}

void expect_same_beside(LayoutRun run) {
  SCOPED_TRACE(run.layout);
  const Left stopped = saved(run, false);
  run.saves_beside = true;
  const Left beside = saved(run, true);
  EXPECT_TRUE(beside.files == stopped.files);
  support::expect_equal(beside.end, stopped.end);
}

TEST(Saving, GoesOnBesideAllLevelsAndRanks) {
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters, support::bf16_alone}) {
    for (const char* ranks : {"dp=1,gas=2", "dp=3,gas=2", "dp=4,gas=2"}) {
      for (int level = 0; level <= 3; ++level)
        expect_same_beside(support::at_level({.layout = ranks, .weights = weights}, level));
    }
  }
}

TEST(Saving, TakesWhatAnUpdateBringsFromElsewhere) {
  const TempFolder disk;
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
    for (const char* tier : {"offload_optimizer=nvme", "offload_optimizer=cpu"}) {
      for (const int level : {0, 2}) {
        LayoutRun run = support::at_level(support::with({.layout = "dp=3,gas=2", .weights = weights}, tier), level);
        run.offload.folder = disk.path();
        run.offload.range_elements = 768;
        expect_same_beside(run);
      }
    }
  }
}

TEST(Saving, KnowsMethodsWithoutSlotsAndHostsThatShareOut) {
  expect_same_beside({.layout = "dp=2,gas=2,zero=1", .optimizer = {.name = "sgd"}});
  expect_same_beside({.layout = "dp=4,gas=2,zero=2,zero_group=node", .weights = support::bf16_with_masters});
  expect_same_beside({.layout = "dp=2,gas=2,zero=3,pp=2"});
}

TEST(Saving, RanksThatDivideLayersAndSequencesWriteTheirParts) {
  for (const char* layout : {"tp=2", "dp=2,tp=2,sequence", "cp=2", "dp=2,pp=2,gas=2"})
    expect_same_beside({.layout = layout, .samples = 2});
}

// The device's memory is touched by copies on its stream alone: a thread beside it would end the program.
TEST(Saving, CopiesFromAFarDevice) {
  EngineConfig config = support::tiny_config();
  config.weights = support::bf16_with_masters;
  const auto files = [&](support::Machine& machine) {
    const TempFolder folder;
    const auto engine = support::make_engine(config, machine);
    const support::Batches batches(1, config.samples, config.positions, config.model.vocabulary);
    RunningSave save(folder.path(), *engine, {.step = 0}, Json::Object{}, machine.runtime->team());
    engine->step(batches.all(), batches.targets(), 0, 1e-2);
    return files_of(save.finish().folder);
  };
  config.saves_beside = true;
  support::Machine near(2);
  support::FarMachine far(2);
  EXPECT_TRUE(files(far.machine()) == files(near));
}

TEST(Saving, EndsWithoutAnotherStep) {
  const TempFolder disk;
  for (const char* layout : {"dp=2,gas=2", "dp=2,gas=2,offload_optimizer=nvme"}) {
    const TempFolder folder;
    LayoutRun run{.layout = layout, .saves_beside = true};
    run.offload.folder = disk.path();
    support::on_layout(run, [&](LayoutRank& rank) {
      rank.engine().initialise();
      RunningSave save(folder.path(), rank.engine(), {.step = 0}, Json::Object{}, rank.team());
      const checkpoint::SaveReport report = save.finish();
      EXPECT_LE(report.waited_seconds, report.durable_seconds + 60);
      EXPECT_TRUE(checkpoint::Reader(report.folder).verify(rank.team()).empty());
    });
  }
}

// A file system that takes less than a rank's part.
TEST(Saving, WhatFailsOnOneRankIsToldOnAllAndNothingIsLeft) {
  const TempFolder folder;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  std::vector<std::string> said(2);
  support::on_layout({.layout = "dp=2,gas=2", .saves_beside = true}, [&](LayoutRank& rank) {
    Engine& engine = rank.engine();
    engine.initialise();
    LayoutResult ignored;
    auto save = std::make_unique<RunningSave>(folder.path(), engine, RunState{.step = 0}, Json::Object{}, rank.team());
    save->finish();
    engine.groups().all().barrier();
    if (rank.rank() == 0) {
      const rlimit limit{std::filesystem::file_size(folder.path() / "checkpoints/step_0" / checkpoint::model_file) - 4,
                         old.rlim_max};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    engine.groups().all().barrier();
    try {
      save.reset();
      save = std::make_unique<RunningSave>(folder.path(), engine, RunState{.step = 1}, Json::Object{}, rank.team());
      support::take_steps(rank, 0, 1, ignored);
      save->finish();
    } catch (const UserError& error) {
      said[static_cast<std::size_t>(rank.rank())] = error.what();
    }
  });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "File too large", said[0]);
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(checkpoint::list_checkpoints(folder.path()).size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "checkpoints/.step_1.partial"));
}

/// What each rank is told by a run of so many steps. Its folder is renamed when the last save has looked for it.
std::vector<std::string> train_and_rename(const io::Path& text, const io::Path& run, const io::Path& renamed,
                                          std::int64_t steps) {
  std::vector<std::string> told(2);
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    support::TinyTrainer tiny(world, text);
    const io::HeldFolder held(run);
    TrainerOptions options;
    options.max_iters = steps;
    options.checkpoint_interval = 1;
    options.folder = run;
    options.held = &held;
    options.watches = false;
    std::int64_t saves = 0;
    options.before_save = [&] {
      if (++saves == steps) std::filesystem::rename(run, renamed);
    };
    Trainer trainer(options, tiny.parts(tiny.loader()));
    try {
      trainer.run({}, {});
    } catch (const SystemError& error) {
      told[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  return told;
}

TEST(Saving, AFolderThatIsRenamedMeanwhileGetsItsCheckpoint) {
  const TempFolder folder;
  io::replace_file(folder / "text.bin", std::string(400, '\1'));
  io::make_folders(folder / "run");
  for (const std::string& told : train_and_rename(folder / "text.bin", folder / "run", folder / "elsewhere", 3)) {
    EXPECT_NE(told.find("renamed to " + (folder / "elsewhere").string()), std::string::npos) << told;
    EXPECT_NE(told.find("Its last checkpoint is " + (folder / "elsewhere/checkpoints/step_3").string()), std::string::npos)
        << told;
  }
  EXPECT_EQ(checkpoint::choose_checkpoint(folder / "elsewhere", "last").manifest.step, 3);
  EXPECT_FALSE(io::exists(folder / "run"));
}

TEST(Saving, HasRoomForCopiesInTheLedger) {
  LayoutRun run{.layout = "dp=2,gas=2,zero=1"};
  const auto bytes = [&] { return RankMemory(run.config(), {}).ledger(0).total(); };
  const std::int64_t without = bytes();
  run.saves_beside = true;
  EXPECT_EQ(bytes() - without, checkpoint::part_bytes);
}

}  // namespace
}  // namespace lockstep::train
