// ZeRO-3 by example: a model of three layers a, b and c on three ranks. Rank 0 keeps a0, b0 and c0, a third of each layer, rank 1
// a1, b1 and c1, rank 2 the rest.

#include <gtest/gtest.h>

#include <functional>

#include "comm/thread/thread_world.h"
#include "support/three_layers.h"

namespace lockstep::parallel {
namespace {

using layout::Pass;
using support::expect_start;
using support::expect_thirds;
using support::ThreeLayers;

constexpr UnitIndex a = ThreeLayers::a, b = ThreeLayers::b, c = ThreeLayers::c;
constexpr std::int64_t third = ThreeLayers::third, whole = ThreeLayers::whole;

TEST(ZeroExample, ThreeLayersOnThreeRanks) {
  comm::run_ranks(ThreeLayers::ranks, {.timeout = 60}, [](comm::Communicator& world) {
    ThreeLayers rank(world);
    ParameterStore& store = *rank.store;
    const int r = world.rank();

    // Each rank keeps a third of each layer, and two places for whole ones: what is leased, and what comes next.
    for (const UnitIndex layer : {a, b, c}) {
      const ParameterStore::Shard shard = store.shard(layer);
      EXPECT_EQ(shard.first, r * third);
      ASSERT_EQ(shard.master.elements(), third);
      for (const float mine : elements<float>(shard.master)) EXPECT_EQ(mine, ThreeLayers::value(layer, r));
    }
    const std::int64_t small = r == 2 ? 2 * layout::cut : 0;  // embedding and head are too small to be cut
    EXPECT_EQ(rank.weights.bytes(), 4 * (3 * third + 2 * whole + small));

    // Forward: a layer is gathered, used and dropped, then the next one; backward the same the other way round.
    const std::vector<UnitIndex> forward{a, b, c}, backward{c, b, a};
    std::vector<layout::Access> order;
    for (const UnitIndex layer : forward) order.push_back(ThreeLayers::access(layer, Pass::forward));
    for (const UnitIndex layer : backward) order.push_back(ThreeLayers::access(layer, Pass::backward));
    store.begin(order);
    for (const UnitIndex layer : forward) {
      const Lease lease = store.lease(ThreeLayers::access(layer, Pass::forward));
      expect_start(lease.flat(), layer);
    }

    // Each rank makes the gradient of a whole layer; of the sum over ranks it gets the third that it keeps weights of.
    const arch::UnitMap map = ThreeLayers::map();
    ZeroGradients gradients(rank.memory.units, map, 1, rank.kept, {world}, *rank.machine.ops, {.bucket_bytes = 1});
    gradients.begin(1);
    const auto add_to = [&](UnitIndex unit, float gradient) {
      std::ranges::fill(elements<float>(gradients.open(unit, Microbatch{0}).flat), gradient);
      gradients.close(unit, Microbatch{0});
    };
    add_to(map.head, 0);
    for (const UnitIndex layer : backward) {
      const Lease lease = store.lease(ThreeLayers::access(layer, Pass::backward));
      expect_start(lease.flat(), layer);
      add_to(layer, static_cast<float>(1 + r));
    }
    add_to(map.embedding, 0);
    gradients.finish();
    store.begin({});
    for (const UnitIndex layer : {a, b, c}) {
      const GradientStore::Shard shard = gradients.shard(layer);
      EXPECT_EQ(shard.first, r * third);
      ASSERT_EQ(shard.gradient.elements(), third);
      for (const float sum : elements<float>(shard.gradient)) EXPECT_EQ(sum, 1 + 2 + 3);
    }

    // Each rank updates its thirds, and the next lease of a layer has those of all.
    for (const UnitIndex layer : {a, b, c}) {
      const std::span<float> weights = elements<float>(store.shard(layer).master);
      std::ranges::transform(weights, elements<float>(gradients.shard(layer).gradient), weights.begin(), std::minus());
    }
    store.updated(ParameterStore::Changed::all);
    const Lease lease = store.lease(ThreeLayers::access(b));
    expect_thirds(lease.flat(), ThreeLayers::value(b, 0) - 6, ThreeLayers::value(b, 1) - 6, ThreeLayers::value(b, 2) - 6);
  });
}

}  // namespace
}  // namespace lockstep::parallel
