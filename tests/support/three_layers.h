#pragma once

// A model of three layers a, b and c on three ranks that have a third of each.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "parallel/stores.h"
#include "parallel/zero/gradients.h"
#include "support/machine.h"

namespace lockstep::support {

struct ThreeLayers {
  static constexpr int ranks = 3;
  static constexpr std::int64_t third = layout::cut, whole = ranks * third;  // elements of a layer
  static constexpr UnitIndex a{1}, b{2}, c{3};

  /// Before and behind the layers a model has an embedding and a head, small ones here.
  static arch::UnitMap map() {
    return {.embedding = UnitIndex{0},
            .tied = UnitIndex{-1},
            .blocks = {a, b, c},
            .adapters = {},
            .head = UnitIndex{4},
            .embedding_reads = {UnitIndex{0}},
            .head_reads = {UnitIndex{4}},
            .embedding_learns = {UnitIndex{0}},
            .head_learns = {UnitIndex{4}},
            .count = 5};
  }
  static std::vector<layout::Unit> units() {
    constexpr int table = static_cast<int>(arch::Role::token_table);
    return {layout::make_unit("embedding", {{.name = "table", .shape = Shape{1, 16}, .role = table}}),
            layout::make_unit("a", {{.name = "a", .shape = Shape{whole}}}),
            layout::make_unit("b", {{.name = "b", .shape = Shape{whole}}}),
            layout::make_unit("c", {{.name = "c", .shape = Shape{whole}}}),
            layout::make_unit("head", {{.name = "head", .shape = Shape{16}}})};
  }
  static layout::ParallelPlan plan(int prefetch, int stay) {
    layout::ParallelPlan plan{.dp = ranks, .prefetch = prefetch, .kept = stay, .ranks_per_host = ranks};
    layout::set_zero_level(plan, 3);
    return plan;
  }
  /// The access of a lease on a whole layer.
  static layout::Access access(UnitIndex layer, layout::Pass pass = layout::Pass::forward) { return {{layer, {0, whole}}, pass}; }
  /// What a third of a layer holds: a0 = 10, a1 = 11, a2 = 12, b0 = 20, ...
  static float value(UnitIndex layer, int part) { return static_cast<float>(10 * layer.value + part); }

  /// One of the three ranks, with its thirds filled in.
  explicit ThreeLayers(comm::Communicator& world, int prefetch = 1, int stay = 0)
      : groups(world, layout::Mesh(plan(prefetch, stay))),
        memory(units(), {}, plan(prefetch, stay), groups.at(),
               {{.units = {a, b, c}, .elements = whole, .parts = 3, .sequence = true, .contiguous = whole}}),
        store(parallel::make_parameter_store(memory, groups, *machine.stream)) {
    world.attach(*machine.stream, machine.runtime->team());
    memory.declare(weights, weights);
    kept.declare(
        {gradients, rest, rest}, memory.units,
        {.ranks = ranks, .cut = memory.cut, .cut_gradients = true, .order = arch::backward_order(map()), .bucket_bytes = 1});
    Ledger ledger;
    for (Arena* arena : {&weights, &gradients, &rest}) arena->commit(*machine.runtime, ledger);
    for (const UnitIndex layer : {a, b, c})
      std::ranges::fill(elements<float>(store->shard(layer).master), value(layer, groups.at().dp));
    store->updated();
  }

  Machine machine{1};
  parallel::Groups groups;
  parallel::ParameterMemory memory;
  std::unique_ptr<parallel::ParameterStore> store;
  parallel::GradientMemory kept;
  Arena weights{"weights", MemoryKind::parameters}, gradients{"gradients", MemoryKind::gradients},
      rest{"rest", MemoryKind::workspace};
};

/// The thirds of a whole layer.
inline void expect_thirds(const Tensor& flat, float first, float second, float last) {
  const std::span<float> values = elements<float>(flat);
  ASSERT_EQ(std::ssize(values), ThreeLayers::whole);
  constexpr std::int64_t third = ThreeLayers::third;
  for (std::int64_t i = 0; i < ThreeLayers::whole; ++i)
    EXPECT_EQ(values[static_cast<std::size_t>(i)], i < third ? first : i < 2 * third ? second : last) << i;
}
/// The thirds of a layer as they are at the start.
inline void expect_start(const Tensor& flat, UnitIndex layer) {
  expect_thirds(flat, ThreeLayers::value(layer, 0), ThreeLayers::value(layer, 1), ThreeLayers::value(layer, 2));
}

}  // namespace lockstep::support
