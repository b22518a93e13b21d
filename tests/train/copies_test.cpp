// Copies in the memory of hosts while a run goes on. They are the files of a save that stops the run, and change no bit of the
// run.

#include "train/saving/copies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/copies/restore.h"
#include "checkpoint/find.h"
#include "support/layout_run.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

constexpr int steps = 6, copied = 3;
const Json extra = Json::Object{{"name", "a run"}};

/// Ranks with neighbouring numbers share a host; hosts do not share memory.
CopyPlace place_of(const io::Path& memory, LayoutRank& rank, int hosts) {
  CopyPlace place;
  const int ranks = rank.groups().all().size();
  for (int r = 0; r < ranks; ++r) place.hosts.emplace_back(1, static_cast<char>('a' + r * hosts / ranks));
  place.folder = memory / place.hosts[static_cast<std::size_t>(rank.rank())];
  return place;
}

std::vector<std::string> files_of(const io::Path& checkpoint) {
  std::vector<std::string> files;
  for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file, checkpoint::manifest_file})
    files.push_back(io::read_file(checkpoint / name));
  return files;
}

/// Whether the copy is whole now. Collective.
bool advance(LayoutRank& rank, Copies& copies) {
  std::int64_t busy = copies.busy() ? 1 : 0;
  rank.groups().all().host().all_reduce(view(std::span(&busy, 1), Shape{1}), comm::Reduction::max).wait();
  return busy == 0 && copies.advance().has_value();
}

/// A run with a checkpoint behind the first step and a copy, or a checkpoint, behind the third.
LayoutResult run_with(LayoutRun run, const io::Path& folder, const io::Path& memory, int hosts) {
  LayoutResult end;
  run.saves_beside = hosts > 0;
  support::on_layout(run, [&](LayoutRank& rank) {
    Engine& engine = rank.engine();
    engine.initialise();
    std::optional<Copies> copies;
    if (hosts > 0) copies.emplace(place_of(memory, rank, hosts), engine, rank.team());
    const Json mine = rank.lead() ? extra : Json();
    for (int step = 0; step < steps; ++step) {
      if (step == 1 || (step == copied && !copies)) save_run(folder, engine, {.step = step}, mine, rank.team());
      if (step == copied && copies) copies->begin({.step = step}, mine, folder / "checkpoints/step_1");
      support::take_steps(rank, step, step + 1, end);
      if (copies && copies->active()) advance(rank, *copies);
    }
    while (copies && copies->active()) advance(rank, *copies);
    rank.collect(end);
  });
  return end;
}

void expect_same_copy(LayoutRun run, int hosts) {
  SCOPED_TRACE(fmt::format("{} on {} hosts", run.layout, hosts));
  const TempFolder stopped, beside, memory;
  const LayoutResult whole = run_with(run, stopped.path(), memory.path(), 0);
  run.copied_pieces = 4;
  support::expect_equal(run_with(run, beside.path(), memory.path(), hosts), whole);
  comm::run_ranks(1, {.timeout = 60}, [&](comm::Communicator& world) {
    Team team(1);
    const checkpoint::Choice last = checkpoint::choose_checkpoint(beside.path(), "last");
    // Each of two hosts has everything: one alone restores the copy.
    const auto found = checkpoint::restore_copies(world, memory / (hosts == 2 ? "b" : "a"), beside.path(), last, team);
    ASSERT_TRUE(found.restored) << (found.ignored.empty() ? "" : found.ignored.front());
  });
  const io::Path step = io::Path("checkpoints") / checkpoint::folder_name(copied);
  EXPECT_TRUE(files_of(beside.path() / step) == files_of(stopped.path() / step));
}

TEST(Copies, AreCheckpointsOfAllLevelsAndTypes) {
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters, support::bf16_alone}) {
    for (int level = 0; level <= 3; ++level)
      expect_same_copy(support::at_level({.layout = "dp=4,gas=2", .weights = weights}, level), 2);
  }
}

TEST(Copies, OfOneHostAndOfRanksThatDivideLayers) {
  expect_same_copy({.layout = "dp=1,gas=2"}, 1);
  expect_same_copy({.layout = "dp=2,gas=2,zero=1"}, 1);
  for (const char* layout : {"tp=2", "dp=2,tp=2,sequence", "cp=2", "dp=2,pp=2,gas=2"})
    expect_same_copy({.layout = layout, .samples = 2}, 2);
}

TEST(Copies, TakeWhatAnUpdateBringsFromElsewhere) {
  const TempFolder disk;
  LayoutRun run{.layout = "dp=2,gas=2,zero=2,offload_optimizer=nvme", .weights = support::bf16_with_masters};
  run.offload.folder = disk.path();
  run.offload.range_elements = 768;
  expect_same_copy(run, 2);
}

TEST(Copies, ThoseOfBeforeGoWhenTheNextIsWholeAndAllGoAtTheEnd) {
  const TempFolder folder, memory;
  support::on_layout({.layout = "dp=2,gas=2", .saves_beside = true, .copied_pieces = 4}, [&](LayoutRank& rank) {
    Engine& engine = rank.engine();
    engine.initialise();
    save_run(folder.path(), engine, {.step = 1}, extra, rank.team());
    const CopyPlace place = place_of(memory.path(), rank, 2);
    Copies copies(place, engine, rank.team());
    const auto steps_there = [&] {
      rank.groups().all().barrier();
      std::vector<std::int64_t> there;
      for (const checkpoint::Found& found : checkpoint::list_checkpoints(place.folder)) there.push_back(found.step);
      rank.groups().all().barrier();
      return there;
    };
    const auto finish = [&](std::int64_t step) {
      copies.begin({.step = step}, extra, folder / "checkpoints/step_1");
      while (copies.active()) advance(rank, copies);
    };
    finish(2);
    EXPECT_EQ(steps_there(), std::vector<std::int64_t>{2});
    finish(3);
    EXPECT_EQ(steps_there(), std::vector<std::int64_t>{3});
    // One that another save takes the place of leaves the whole one.
    copies.begin({.step = 4}, extra, folder / "checkpoints/step_1");
    copies.give_up();
    EXPECT_EQ(steps_there(), std::vector<std::int64_t>{3});
    copies.begin({.step = 5}, extra, folder / "checkpoints/step_1");
    copies.remove();
    EXPECT_FALSE(copies.active());
    rank.groups().all().barrier();
    EXPECT_FALSE(io::exists(place.folder));
  });
}

TEST(Copies, CountInTheLedger) {
  const auto bytes = [](const char* layout, int pieces) {
    LayoutRun run{.layout = layout, .saves_beside = true};
    run.copied_pieces = pieces;
    return RankMemory(run.config(), {}).ledger(0);
  };
  const std::int64_t whole = RankMemory(LayoutRun{.saves_beside = true, .copied_pieces = 2}.config(), {}).shared;
  EXPECT_EQ(RankMemory(LayoutRun{.saves_beside = true}.config(), {}).shared, 0);
  EXPECT_EQ(RankMemory(LayoutRun{.layout = "dp=4", .copied_pieces = 4}.config(), {}).shared, whole / 2);
  EXPECT_GE(bytes("dp=1", 2).total(), bytes("dp=1", 0).total() + whole);
  EXPECT_NE(bytes("dp=1", 2).tensor_table().find("copies in shared memory"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
