#include "device/team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/runtime.h"
#include "support/patience.h"

namespace lockstep {
namespace {

class Teams : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Teams, testing::Values(1, 2, 3, 4, 7));

// Both ways to share tiles, after one another.
template <class Body>
void for_each_both(Team& team, std::int64_t tiles, const Body& body) {
  team.for_each(tiles, body);
  team.for_each_affine(tiles, body);
}

TEST_P(Teams, RunEveryTileOnce) {
  Team team(GetParam());
  for (int tiles = 0; tiles < 70; ++tiles) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tiles));
    std::atomic<int> strangers = 0;
    for_each_both(team, tiles, [&](std::int64_t tile, int worker) {
      ++runs[static_cast<std::size_t>(tile)];
      if (worker < 0 || worker >= team.size()) ++strangers;
    });
    EXPECT_EQ(strangers, 0);
    for (const auto& run : runs) EXPECT_EQ(run, 2);
  }
}

// Each tile waits until all have begun: every worker has one, its own.
TEST_P(Teams, BeginWithTheirOwnPartWhereTilesAreAffine) {
  Team team(GetParam());
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> begun = 0, elsewhere = 0;
    team.for_each_affine(team.size(), [&](std::int64_t tile, int worker) {
      ++begun;
      EXPECT_TRUE(support::comes_true([&] { return begun == team.size(); }, {}));
      if (tile != worker) ++elsewhere;
    });
    EXPECT_EQ(elsewhere, 0);
  }
}

// A worker that is held up in its first tile does no other: the rest of its part is left to those that are done.
TEST_P(Teams, HelpAWorkerThatIsSlow) {
  Team team(GetParam());
  if (team.size() == 1) return;
  const std::int64_t tiles = std::int64_t{8} * team.size();
  std::atomic<std::int64_t> others = 0;
  team.for_each_affine(tiles, [&](std::int64_t tile, int) {
    if (tile > 0) {
      ++others;
    } else {
      EXPECT_TRUE(support::comes_true([&] { return others == tiles - 1; }, {}));
    }
  });
  EXPECT_EQ(others, tiles - 1);
}

TEST_P(Teams, WritesOfWorkersAreSeenByTheCaller) {
  Team team(GetParam());
  std::vector<std::int64_t> values(97);
  std::int64_t expected = 0;
  for (int round = 0; round < 3000; ++round) {
    for_each_both(team, 97, [&](std::int64_t tile, int) { values[static_cast<std::size_t>(tile)] += tile; });
    expected += 96 * 97;
  }
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), std::int64_t{0}), expected);
}

TEST_P(Teams, OnAllRunsOncePerWorkerAndMeets) {
  Team team(GetParam());
  const auto size = static_cast<std::size_t>(team.size());
  for (int round = 0; round < 200; ++round) {
    std::vector<int> first(size), sums(size);
    team.on_all([&](int worker) {
      first[static_cast<std::size_t>(worker)] = worker + 1;
      team.barrier();
      sums[static_cast<std::size_t>(worker)] = std::accumulate(first.begin(), first.end(), 0);
      team.barrier();
      first[static_cast<std::size_t>(worker)] = 0;
    });
    const int total = team.size() * (team.size() + 1) / 2;
    EXPECT_EQ(sums, std::vector<int>(size, total));
    EXPECT_EQ(first, std::vector<int>(size, 0));
  }
}

TEST_P(Teams, RethrowTheFirstExceptionAndGoOn) {
  Team team(GetParam());
  const auto fail = [](std::int64_t tile, int) {
    if (tile == 11) throw std::runtime_error("tile 11");
  };
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(team.for_each(40, fail), std::runtime_error);
    EXPECT_THROW(team.for_each_affine(40, fail), std::runtime_error);
    std::atomic<int> count = 0;
    for_each_both(team, 40, [&](std::int64_t, int) { ++count; });
    EXPECT_EQ(count, 80);
  }
}

TEST_P(Teams, AFailedWorkerReleasesThoseAtTheBarrier) {
  Team team(GetParam());
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(team.on_all([&](int worker) {
      if (worker == team.size() - 1) throw std::runtime_error("the last worker");
      team.barrier();
    }),
                 std::runtime_error);
    std::atomic<int> met = 0;
    team.on_all([&](int) {
      team.barrier();
      ++met;
    });
    EXPECT_EQ(met, team.size());
  }
}

TEST_P(Teams, WakeWorkersThatSleep) {
  Team team(GetParam());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(8));
    std::atomic<int> all = 0;
    team.on_all([&](int) { ++all; });
    EXPECT_EQ(all, team.size());
  }
}

TEST(Team, RefusesNoThreads) { EXPECT_THROW(Team(0), BrokenRule); }

TEST(Runtime, TakesTheThreadsItIsTold) {
  const auto runtime = open_runtime({}, {.threads = 3});
  EXPECT_EQ(runtime->team().size(), 3);
  EXPECT_EQ(runtime->device(), Device{});
  EXPECT_NE(runtime->description().find("3 threads"), std::string::npos);
  EXPECT_GE(open_runtime({})->team().size(), 1);
}

TEST(Runtime, RefusesWhatIsNotThere) {
  EXPECT_THROW(open_runtime({DeviceKind::cuda, 0}), UserError);
  EXPECT_THROW(open_runtime({}, {.threads = -1}), UserError);
}

TEST(Stream, IsImmediateAndCallsBack) {
  const auto runtime = open_runtime({}, {.threads = 1});
  const auto stream = runtime->make_stream();
  const auto event = stream->make_event();
  int calls = 0;
  stream->add_progress([&] { ++calls; });
  stream->record(*event);
  stream->wait(*event);
  stream->synchronize();
  stream->progress();
  EXPECT_EQ(calls, 2);
}

// The user has 2 threads at most. Root has no such limit, so it becomes another user.
void make_a_team_with_few_threads() {
  const rlimit few{2, 2};
  if (setrlimit(RLIMIT_NPROC, &few) != 0 || (getuid() == 0 && setuid(54322) != 0)) _exit(1);
  try {
    const Team team(4);
  } catch (const SystemError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(0);
  }
  _exit(2);
}

// The workers that were started wait for work that never comes: they have to be told.
TEST(Team, AWorkerThatCannotBeStartedIsAnError) {
  EXPECT_EXIT(make_a_team_with_few_threads(), testing::ExitedWithCode(0),
              "the thread team-[1-3] cannot be started: Resource temporarily unavailable");
}

}  // namespace
}  // namespace lockstep
