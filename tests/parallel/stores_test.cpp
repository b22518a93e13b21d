#include "parallel/stores.h"

#include <gtest/gtest.h>

#include "arch/parameters.h"
#include "comm/thread/thread_world.h"
#include "parallel/boundary.h"
#include "parallel/context/split_positions.h"
#include "parallel/context_attention.h"
#include "support/machine.h"
#include "support/tiny_model.h"

namespace lockstep::parallel {
namespace {

using layout::Pass;

std::vector<layout::Unit> units() { return arch::units_of(arch::unit_table(support::tiny_model())); }

TEST(Stores, WeightsThatArePlacedWhereNoStoreKeepsThemAreRefused) {
  const layout::Placement cut{.cut = layout::CutOver::all}, on_host{.tier = layout::Tier::host};
  for (const layout::Placement& placement : {cut, on_host})
    EXPECT_THROW(ParameterMemory(units(), {}, {.dp = 2, .parameters = placement}), BrokenRule);
}

TEST(Stores, LeasesOfAStepFollowItsOrder) {
  const support::Machine machine;
  const Groups groups(*machine.world, layout::Mesh({}));
  ParameterMemory memory(units(), {}, groups.plan());
  Arena arena("weights", MemoryKind::parameters);
  memory.declare(arena, arena);
  Ledger ledger;
  arena.commit(*machine.runtime, ledger);
  const std::unique_ptr<ParameterStore> store = make_parameter_store(memory, groups, *machine.stream);
  const layout::Access first{{UnitIndex{0}, {0, 16}}, Pass::forward}, second{{UnitIndex{0}, {16, 32}}, Pass::forward};
  store->begin({first, second});
  {
    const Lease lease = store->lease(first);
  }
  EXPECT_THROW(static_cast<void>(store->lease(first)), BrokenRule);
  {
    const Lease lease = store->lease(second);
  }
  EXPECT_THROW(static_cast<void>(store->lease(second)), BrokenRule);
  store->begin({});
  for (int twice = 0; twice < 2; ++twice) {
    const Lease lease = store->lease(second);
  }
}

// Every rank has a part from the front and one from the back of a sample; all have all of it.
TEST(Stores, PlansSayWhichPositionsARankAttendsWith) {
  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<int> times(29);
    for (int rank = 0; rank < ranks; ++rank) {
      const ops::Positions own = split_positions(29, rank, ranks);
      for (std::int64_t row = 0; row < own.count(); ++row) ++times[static_cast<std::size_t>(own.at(row))];
    }
    EXPECT_EQ(times, std::vector<int>(29, 1)) << ranks;
  }
}

// Decoders read a few tokens at a time, which are not worth dividing.
TEST(Stores, PlansSayWhatBoundariesCarry) {
  const auto kinds = [](const layout::ParallelPlan& plan) {
    std::pair<BoundaryKind, BoundaryKind> found;
    comm::run_ranks(plan.ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
      const Groups groups(world, layout::Mesh(plan));
      if (world.rank() == 0) found = {make_boundary(groups)->kind(), make_reading_boundary(groups)->kind()};
    });
    return found;
  };
  using enum BoundaryKind;
  EXPECT_EQ(kinds({.dp = 2, .ranks_per_host = 2}), std::pair(local, local));
  EXPECT_EQ(kinds({.tp = 2, .ranks_per_host = 2}), std::pair(summing, summing));
  EXPECT_EQ(kinds({.tp = 2, .sequence = true, .ranks_per_host = 2}), std::pair(splitting, summing));
}

}  // namespace
}  // namespace lockstep::parallel
