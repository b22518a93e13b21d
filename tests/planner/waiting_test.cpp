// Kinds of operations that a step waits for.

#include "planner/waiting.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "support/planned_model.h"

namespace lockstep::planner {
namespace {

using comm::Collective;
class WaitingByKind : public testing::Test {
 protected:
  static Work work() {
    Machine machine;
    machine.devices = 8;
    machine.memory = 80e9;
    machine.peak_flops = 1e12;
    machine.product_share = 1;
    machine.memory_rate = 1e12;
    machine.inside_rate = 1e9;
    machine.between_rate = 1e9;
    return {support::planned_model(4), 256, machine, own_f32_system};
  }
  /// Seconds that a plan's step waits, by kind of collective. Their sum is checked.
  static comm::CollectiveSeconds of(const layout::ParallelPlan& plan) {
    const Candidate candidate{.plan = plan, .samples = 2};
    const StepTime time = step_time(work(), candidate);
    const comm::CollectiveSeconds seconds = waiting_by_kind(work(), candidate, time);
    const double all = time.tensor_parallel + time.messages + time.bubble + time.gather + time.replicas;
    EXPECT_NEAR(std::reduce(seconds.begin(), seconds.end()), all, 1e-9 * all);
    return seconds;
  }
  /// The kinds of collective that a plan's step waits for.
  static std::set<Collective> kinds(const layout::ParallelPlan& plan) {
    std::set<Collective> kinds;
    const comm::CollectiveSeconds seconds = of(plan);
    for (std::size_t kind = 0; kind < seconds.size(); ++kind) {
      if (seconds[kind] > 0) kinds.insert(static_cast<Collective>(kind));
    }
    return kinds;
  }
  using Kinds = std::set<Collective>;
};

TEST_F(WaitingByKind, OneRankWaitsForNone) { EXPECT_EQ(kinds({}), Kinds{}); }

TEST_F(WaitingByKind, ReplicasSumOrScatterAndGather) {
  layout::ParallelPlan plan{.dp = 2};
  EXPECT_EQ(kinds(plan), Kinds{Collective::all_reduce});
  layout::set_zero_level(plan, 2);
  EXPECT_EQ(kinds(plan), (Kinds{Collective::all_gather, Collective::reduce_scatter}));
  layout::set_zero_level(plan, 3);
  EXPECT_EQ(kinds(plan), Kinds{Collective::reduce_scatter}) << "gathers hide behind passes";
}

TEST_F(WaitingByKind, LayersThatAreDividedAreSummedOrScattered) {
  layout::ParallelPlan plan{.tp = 4};
  EXPECT_EQ(kinds(plan), Kinds{Collective::all_reduce});
  plan.sequence = true;
  EXPECT_EQ(kinds(plan), (Kinds{Collective::all_gather, Collective::reduce_scatter}));
}

TEST_F(WaitingByKind, PositionsAreGatheredExchangedOrPassedRound) {
  layout::ParallelPlan plan{.cp = 2};
  const auto method = [&](layout::ContextMethod context) {
    plan.context = context;
    Kinds found = kinds(plan);
    found.erase(Collective::all_reduce);  // of gradients
    return found;
  };
  EXPECT_EQ(method(layout::ContextMethod::allgather), (Kinds{Collective::all_gather, Collective::reduce_scatter}));
  EXPECT_EQ(method(layout::ContextMethod::ulysses), Kinds{Collective::all_to_all});
  EXPECT_EQ(method(layout::ContextMethod::ring), Kinds{Collective::receive});
  plan.tp = 2;
  EXPECT_GT(of(plan)[static_cast<std::size_t>(Collective::all_reduce)], 0);
}

TEST_F(WaitingByKind, StagesWaitForMessages) { EXPECT_EQ(kinds({.pp = 2, .microbatches = 4}), Kinds{Collective::receive}); }

}  // namespace
}  // namespace lockstep::planner
