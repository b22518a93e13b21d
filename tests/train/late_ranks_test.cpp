// Ranks that the others wait for, told from injected seconds: no clock decides anything here.

#include "train/late/late_ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>

#include "comm/thread/thread_world.h"
#include "train/late/late_watch.h"

namespace lockstep::train {
namespace {

/// Seconds of a rank's work in a step.
using Work = std::function<double(int rank, std::int64_t step)>;

struct Told {
  std::int64_t step = 0;
  LateChange change;
};

/// What is told of these steps, the first of which is 1.
std::vector<Told> watch(LateRanks& late, int ranks, std::int64_t steps, const Work& work) {
  std::vector<WorkWindow> windows(static_cast<std::size_t>(ranks));
  std::vector<double> seconds(windows.size());
  std::vector<Told> told;
  for (std::int64_t step = 1; step <= steps; ++step) {
    for (std::size_t r = 0; r < windows.size(); ++r) windows[r].add(work(static_cast<int>(r), step));
    if (!windows[0].full()) continue;
    for (std::size_t r = 0; r < windows.size(); ++r) seconds[r] = windows[r].take();
    for (const LateChange& change : late.add(seconds)) told.push_back({step, change});
  }
  return told;
}

/// Factors of a quiet machine's jitter.
class Noise {
 public:
  enum class Kind : std::uint8_t { none, normal, wide, tailed };
  Noise(Kind kind, std::uint64_t seed) : kind_(kind), random_(seed) {}
  double operator()() {
    if (kind_ == Kind::none) return 1;
    if (kind_ == Kind::normal) return std::max(0.5, std::normal_distribution(1.0, 0.03)(random_));
    if (kind_ == Kind::wide) return std::max(0.3, std::normal_distribution(1.0, 0.1)(random_));
    const double body = std::lognormal_distribution(0.0, 0.05)(random_);
    // One step in a hundred is longer, by a Pareto tail.
    const double uniform = std::uniform_real_distribution(0.0, 1.0)(random_);
    return uniform < 0.01 ? body * std::min(50.0, 1.2 / std::sqrt(std::max(1e-9, 100 * uniform))) : body;
  }

 private:
  Kind kind_;
  std::mt19937_64 random_;
};

constexpr double step_seconds = 0.15;
/// Steps that warm up, that follow an evaluation, and in which rank 0 saves.
double pauses(int rank, std::int64_t step) {
  if (step <= 5) return 1.0 + 3.0 * (rank + 1) / static_cast<double>(step);
  if (step % 250 == 1) return rank % 2 == 0 ? 4 : 2;
  return rank == 0 && step % 500 == 0 ? 8 : 1;
}

TEST(LateRanks, TenThousandQuietStepsRaiseNoAlarm) {
  for (const int ranks : {2, 4, 16}) {
    for (const auto kind : {Noise::Kind::none, Noise::Kind::normal, Noise::Kind::wide, Noise::Kind::tailed}) {
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        Noise noise(kind, seed);
        LateRanks late(std::vector<int>(static_cast<std::size_t>(ranks), 0));
        const std::vector<Told> told =
            watch(late, ranks, 10'000, [&](int rank, std::int64_t step) { return step_seconds * noise() * pauses(rank, step); });
        EXPECT_TRUE(told.empty()) << ranks << " ranks, noise " << static_cast<int>(kind) << ", seed " << seed << ": rank "
                                  << told[0].change.rank << " after step " << told[0].step;
        EXPECT_FALSE(late.worst());
      }
    }
  }
}

TEST(LateRanks, AStageWithMoreWorkIsNotLate) {
  const std::vector<double> share{1, 2, 1.5, 3};
  Noise noise(Noise::Kind::tailed, 7);
  LateRanks late({0, 1, 2, 3});
  const auto told = watch(late, 4, 10'000, [&](int rank, std::int64_t step) {
    return step_seconds * noise() * pauses(rank, step) * share[static_cast<std::size_t>(rank)];
  });
  EXPECT_TRUE(told.empty());
}

TEST(LateRanks, ARankThatBecomesSlowerIsNamedWithin20Steps) {
  for (const int ranks : {2, 3, 16}) {
    for (std::int64_t begins = 1; begins <= 60; begins += 3) {
      const int slow = static_cast<int>(begins) % ranks;
      const std::int64_t ends = begins + 200;
      Noise noise(Noise::Kind::normal, static_cast<std::uint64_t>(begins));
      LateRanks late(std::vector<int>(static_cast<std::size_t>(ranks), 0));
      const std::vector<Told> told = watch(late, ranks, ends + 40, [&](int rank, std::int64_t step) {
        return step_seconds * noise() * pauses(rank, step) * (rank == slow && step >= begins && step < ends ? 1.3 : 1);
      });
      ASSERT_EQ(told.size(), 2U) << ranks << " ranks, from step " << begins;
      EXPECT_TRUE(told[0].change.late);
      EXPECT_EQ(told[0].change.rank, slow);
      EXPECT_LT(told[0].step, begins + 20);
      EXPECT_NEAR(told[0].change.factor, 1.3, 0.08);
      EXPECT_NEAR(told[0].change.seconds, 0.3 * step_seconds, 0.08 * step_seconds);
      EXPECT_TRUE(told[0].change.by_peers);
      EXPECT_FALSE(told[1].change.late);
      EXPECT_LT(told[1].step, ends + 20);
    }
  }
}

TEST(LateRanks, AStageThatBecomesSlowerThanItWasIsNamed) {
  const std::vector<double> share{1, 2};
  for (const int slow : {0, 1}) {
    Noise noise(Noise::Kind::normal, 3);
    LateRanks late({0, 1});
    const auto told = watch(late, 2, 200, [&](int rank, std::int64_t step) {
      return step_seconds * noise() * share[static_cast<std::size_t>(rank)] * (rank == slow && step > 103 ? 1.3 : 1);
    });
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].change.rank, slow);
    EXPECT_LT(told[0].step, 103 + 20);
    EXPECT_FALSE(told[0].change.by_peers);
    EXPECT_NEAR(told[0].change.seconds, 0.3 * step_seconds * share[static_cast<std::size_t>(slow)], 0.03);
  }
}

TEST(LateRanks, RanksAreComparedWithThoseOfTheSameWork) {
  LateRanks late({0, 0, 1, 1});  // two replicas of two stages
  const auto told = watch(late, 4, 40, [&](int rank, std::int64_t /*step*/) {
    return (rank < 2 ? 1.0 : 2.0) * step_seconds * (rank == 2 ? 1.5 : 1);
  });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].change.rank, 2);
  EXPECT_NEAR(told[0].change.seconds, step_seconds, 1e-9);
}

TEST(LateRanks, OfTwoThatAreLateTheWorstIsTheOneThatMostIsLostTo) {
  LateRanks late({0, 0, 0, 0, 0});
  const auto told = watch(late, 5, 40, [](int rank, std::int64_t /*step*/) {
    return step_seconds * (rank == 1 ? 1.4 : rank == 4 ? 2 : 1);
  });
  EXPECT_EQ(told.size(), 2U);
  ASSERT_TRUE(late.worst());
  EXPECT_EQ(late.worst()->rank, 4);
  EXPECT_NEAR(late.worst()->seconds, step_seconds, 1e-9);
}

TEST(LateRanks, LessThanAMillisecondIsNotTold) {
  LateRanks late({0, 0});
  EXPECT_TRUE(watch(late, 2, 100, [](int rank, std::int64_t /*step*/) { return rank == 1 ? 0.0019 : 0.001; }).empty());
}

EngineConfig config_of(const layout::ParallelPlan& plan) {
  EngineConfig config;
  config.plan = plan;
  return config;
}

TEST(LateWatch, RanksTellTheirWorkAndRankZeroWhoIsLate) {
  comm::run_ranks(4, {.timeout = 60}, [](comm::Communicator& world) {
    const layout::ParallelPlan plan{.dp = 2, .pp = 2, .ranks_per_host = 4};
    const parallel::Groups groups(world, layout::Mesh(plan));
    std::optional<LateWatch> watch = LateWatch::of(config_of(plan), groups);
    ASSERT_TRUE(watch);
    std::size_t told = 0;
    for (int step = 1; step <= 20; ++step) {
      watch->add(world.rank() == 3 ? 0.3 : world.rank() == 2 ? 0.2 : 0.1);  // the last stage has twice the work
      for (const LateChange& change : watch->meet()) {
        ++told;
        EXPECT_EQ(change.rank, 3);
        EXPECT_NEAR(change.seconds, 0.1, 1e-9);
      }
    }
    EXPECT_EQ(told, world.rank() == 0 ? 1U : 0U);
    EXPECT_EQ(watch->worst().has_value(), world.rank() == 0);
  });
}

TEST(LateWatch, IsNoneWhereNobodyWaits) {
  comm::run_ranks(1, {}, [](comm::Communicator& world) {
    const parallel::Groups groups(world, layout::Mesh({}));
    EXPECT_FALSE(LateWatch::of(config_of({}), groups));
  });
  comm::run_ranks(2, {}, [](comm::Communicator& world) {
    const layout::ParallelPlan plan{.dp = 2, .ranks_per_host = 2};
    const parallel::Groups groups(world, layout::Mesh(plan));
    EngineConfig config = config_of(plan);
    config.servers = ParameterServers{.mode = ServerMode::async};
    EXPECT_FALSE(LateWatch::of(config, groups));
    config.servers->mode = ServerMode::gradients;
    EXPECT_TRUE(LateWatch::of(config, groups));
  });
}

}  // namespace
}  // namespace lockstep::train
