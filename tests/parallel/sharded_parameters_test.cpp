#include "parallel/zero/sharded_parameters.h"

#include <gtest/gtest.h>

#include "comm/thread/thread_world.h"
#include "support/three_layers.h"

namespace lockstep::parallel {
namespace {

using support::ThreeLayers;

constexpr UnitIndex a = ThreeLayers::a, b = ThreeLayers::b, c = ThreeLayers::c;

/// Runs `body` on the three ranks.
void on_three(int prefetch, const std::function<void(ThreeLayers&, ShardedParameters&)>& body, int kept = 0) {
  comm::run_ranks(ThreeLayers::ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    ThreeLayers rank(world, prefetch, kept);
    body(rank, dynamic_cast<ShardedParameters&>(*rank.store));
  });
}

/// Leases layers, one after another, and says how many were gathered for it.
std::int64_t gathered_for(ShardedParameters& store, const std::vector<UnitIndex>& layers) {
  const std::int64_t before = store.gathered();
  for (const UnitIndex layer : layers) {
    const Lease lease = store.lease(ThreeLayers::access(layer));
    support::expect_start(lease.flat(), layer);
  }
  return (store.gathered() - before) / ThreeLayers::whole;
}

std::vector<layout::Access> order_of(const std::vector<UnitIndex>& layers) {
  std::vector<layout::Access> order;
  for (const UnitIndex layer : layers) order.push_back(ThreeLayers::access(layer));
  return order;
}

TEST(ShardedParameters, WhatComesNextIsGatheredAhead) {
  on_three(1, [](ThreeLayers& /*rank*/, ShardedParameters& store) {
    store.begin(order_of({a, b, c, c, b, a}));
    EXPECT_EQ(gathered_for(store, {a}), 2);
    EXPECT_EQ(gathered_for(store, {b}), 1);
    EXPECT_EQ(gathered_for(store, {c, c}), 0);  // c was ahead, and it and b are still there
    EXPECT_EQ(gathered_for(store, {b}), 1);     // a
    EXPECT_EQ(gathered_for(store, {a}), 0);
  });
}

TEST(ShardedParameters, WithoutPrefetchALeaseGathersItself) {
  on_three(0, [](ThreeLayers& /*rank*/, ShardedParameters& store) {
    store.begin(order_of({a, b, c, c, b}));
    EXPECT_EQ(gathered_for(store, {a, b, c}), 3);
    EXPECT_EQ(gathered_for(store, {c}), 0);
    EXPECT_EQ(gathered_for(store, {b}), 1);
  });
}

TEST(ShardedParameters, NoMorePlacesThanLayersAreTaken) {
  on_three(7, [](ThreeLayers& rank, ShardedParameters& store) {
    EXPECT_EQ(rank.memory.gathers.classes.front().slots.size(), 3U);
    store.begin(order_of({a, b, c, c, b, a}));
    EXPECT_EQ(gathered_for(store, {a, b, c, c, b, a}), 3);
  });
}

TEST(ShardedParameters, WhatFollowedTheLastTimeIsGatheredAheadWithoutAnOrder) {
  on_three(1, [](ThreeLayers& /*rank*/, ShardedParameters& store) {
    store.begin({});
    EXPECT_EQ(gathered_for(store, {a, b, c}), 3);
    EXPECT_EQ(gathered_for(store, {a}), 1);  // it is still there; b
    EXPECT_EQ(gathered_for(store, {b}), 1);  // c
    EXPECT_EQ(gathered_for(store, {c}), 1);  // a
    EXPECT_EQ(gathered_for(store, {b}), 2);  // not a after all, but b, and c, which followed it
    EXPECT_EQ(gathered_for(store, {c}), 0);
  });
}

TEST(ShardedParameters, AFurtherPlaceKeepsWhatIsNeededNext) {
  on_three(
      0,
      [](ThreeLayers& rank, ShardedParameters& store) {
        EXPECT_EQ(rank.memory.gathers.classes.front().slots.size(), 2U);
        store.begin(order_of({a, b, c, a, b}));
        EXPECT_EQ(gathered_for(store, {a, b, c}), 3);
        EXPECT_EQ(gathered_for(store, {a}), 0);
        EXPECT_EQ(gathered_for(store, {b}), 1);
      },
      1);
}

TEST(ShardedParameters, AFurtherPlaceKeepsWhatIsNeededNextInRounds) {
  on_three(
      0,
      [](ThreeLayers& /*rank*/, ShardedParameters& store) {
        store.begin({});
        EXPECT_EQ(gathered_for(store, {a, b, c}), 3);
        EXPECT_EQ(gathered_for(store, {a, b, c}), 1);
        EXPECT_EQ(gathered_for(store, {a, b, c}), 2);
      },
      1);
}

TEST(ShardedParameters, UpdatedWeightsAreGatheredAgain) {
  on_three(0, [](ThreeLayers& rank, ShardedParameters& store) {
    EXPECT_EQ(gathered_for(store, {a, a}), 1);
    const float added = 100;
    for (float& weight : elements<float>(store.shard(a).master)) weight += added;
    store.updated(ParameterStore::Changed::all);
    {
      const Lease lease = store.lease(ThreeLayers::access(a));
      support::expect_thirds(lease.flat(), 110, 111, 112);
      EXPECT_THROW(store.updated(ParameterStore::Changed::all), BrokenRule);
    }
    rank.groups.all().barrier();
  });
}

TEST(ShardedParameters, RulesThatLeasesKeep) {
  on_three(1, [](ThreeLayers& rank, ShardedParameters& store) {
    {
      const Lease first = store.lease(ThreeLayers::access(a)), second = store.lease(ThreeLayers::access(b)),
                  again = store.lease(ThreeLayers::access(a));
      support::expect_start(again.flat(), a);
      EXPECT_THROW(static_cast<void>(store.lease(ThreeLayers::access(c))), BrokenRule);  // there are two places
    }
    store.begin(order_of({a}));
    EXPECT_THROW(static_cast<void>(store.lease(ThreeLayers::access(b))), BrokenRule);
    store.begin({});
    EXPECT_THROW(store.add_packed(a, {}), BrokenRule);
    rank.groups.all().barrier();
  });
}

}  // namespace
}  // namespace lockstep::parallel
