#include "parallel/stores.h"

#include <gtest/gtest.h>

#include "arch/parameters.h"
#include "comm/thread/thread_world.h"
#include "parallel/boundary.h"
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
  const std::unique_ptr<ParameterStore> store = make_parameter_store(memory, groups);
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

TEST(Stores, PlansThatNoBoundaryOrAttentionIsForAreRefused) {
  comm::run_ranks(2, {}, [](comm::Communicator& world) {
    const Groups groups(world, layout::Mesh({.tp = 2, .ranks_per_host = 2}));
    EXPECT_THROW(make_boundary(groups), BrokenRule);
    EXPECT_THROW(make_attention({.cp = 2}, {}), BrokenRule);
  });
}

}  // namespace
}  // namespace lockstep::parallel
