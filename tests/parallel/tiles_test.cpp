// A large matrix that ranks have parts of, leased tile by tile: the places for leases shrink as the number of tiles grows.

#include <gtest/gtest.h>

#include <functional>

#include "arch/parts.h"
#include "comm/thread/thread_world.h"
#include "parallel/stores.h"
#include "support/machine.h"

namespace lockstep::parallel {
namespace {

constexpr UnitIndex unit{0};

layout::ParallelPlan plan_of(int ranks, int prefetch) {
  layout::ParallelPlan plan{.dp = ranks, .prefetch = prefetch, .ranks_per_host = ranks};
  layout::set_zero_level(plan, 3);
  return plan;
}

std::vector<arch::Tile> tiles_of(std::int64_t features, const layout::Tiles& by) {
  std::vector<arch::Tile> tiles;
  for (const layout::Range& rows : layout::tile_ranges(features, by.out)) {
    for (const layout::Range& columns : layout::tile_ranges(features, by.in))
      tiles.push_back({{unit, {rows.first * features, rows.count * features}, features, columns}, rows, columns});
  }
  return tiles;
}

arch::LeaseClass class_of(const std::vector<arch::Tile>& tiles) {
  arch::LeaseClass kind{.units = {unit}, .parts = static_cast<int>(tiles.size()), .sequence = true, .tiles = true};
  for (const arch::Tile& tile : tiles) {
    kind.elements = std::max(kind.elements, tile.part.count());
    kind.strided = kind.strided || tile.part.strided();
    if (!tile.part.strided()) kind.contiguous = std::max(kind.contiguous, tile.part.count());
  }
  return kind;
}

/// Element i of the matrix.
std::uint16_t value(std::int64_t i) { return static_cast<std::uint16_t>(i * 40503 >> 4); }

/// One rank's part of a linear layer's matrix [features, features] in bf16.
struct Layer {
  Layer(comm::Communicator& world, std::int64_t size, const layout::Tiles& by, int prefetch)
      : features(size),
        tiles(tiles_of(size, by)),
        groups(world, layout::Mesh(plan_of(world.size(), prefetch))),
        memory({layout::make_unit("layer", {{.name = "weight", .shape = Shape{size, size}}})},
               {.type = DType::bf16, .master = false}, groups.plan(), groups.at(), {class_of(tiles)}),
        store(make_parameter_store(memory, groups, *machine.stream)) {
    world.attach(*machine.stream, machine.runtime->team());
    memory.declare(arena, arena);
    arena.commit(*machine.runtime, ledger);
    const ParameterStore::Shard shard = store->shard(unit);
    auto* const values = reinterpret_cast<std::uint16_t*>(shard.master.data);
    for (std::int64_t i = 0; i < shard.master.elements(); ++i) values[i] = value(shard.first + i);
    store->updated();
    world.barrier();
  }
  /// Leases all tiles, one after the other; each has its part of the matrix.
  bool leases_are_right() {
    bool right = true;
    for (const arch::Tile& tile : tiles) {
      const Lease lease = store->lease({tile.part, layout::Pass::forward});
      if (lease.flat().elements() != tile.part.count()) return false;
      const auto* leased = reinterpret_cast<const std::uint16_t*>(lease.flat().data);
      for (std::int64_t row = tile.rows.first; row < tile.rows.end(); ++row) {
        for (std::int64_t column = tile.columns.first; column < tile.columns.end(); ++column)
          right = *leased++ == value(row * features + column) && right;
      }
    }
    groups.all().barrier();
    return right;
  }
  /// Taken for what is leased.
  std::int64_t bytes_of_places() const {
    std::int64_t bytes = 0;
    for (const LedgerTensor& tensor : ledger.tensors()) bytes += tensor.name == "gathered tiles" ? tensor.bytes : 0;
    return bytes;
  }

  std::int64_t features;
  std::vector<arch::Tile> tiles;
  support::Machine machine{1};
  Groups groups;
  ParameterMemory memory;
  std::unique_ptr<ParameterStore> store;
  Arena arena{"weights", MemoryKind::parameters};
  Ledger ledger;
};

void on_ranks(int ranks, const std::function<void(comm::Communicator&)>& body) { comm::run_ranks(ranks, {.timeout = 60}, body); }

// The figure of docs/memory.md: 8192 x 8192 in bf16 is 128 MiB.
TEST(Tiles, LiveBytesOfALargeLayerFallAsOneByTheirNumber) {
  constexpr std::int64_t features = 8192, whole = features * features * 2;
  for (const layout::Tiles& tiles : {layout::Tiles{1, 1}, {1, 2}, {2, 1}, {1, 4}, {2, 4}, {1, 16}, {16, 1}}) {
    const int number = tiles.in * tiles.out;
    on_ranks(2, [&](comm::Communicator& world) {
      Layer layer(world, features, tiles, 0);
      EXPECT_TRUE(layer.leases_are_right()) << to_string(tiles);
      EXPECT_EQ(layer.bytes_of_places(), whole / number);
      if (world.rank() == 0)
        std::printf("%2dx%d tiles: %lld bytes live\n", tiles.in, tiles.out, static_cast<long long>(layer.bytes_of_places()));
    });
  }
}

// Parts of ranks begin and end within rows, and some ranks have nothing of a tile.
TEST(Tiles, AreRightHoweverRanksShareTheMatrix) {
  for (const std::int64_t features : {300, 700}) {
    for (const layout::Tiles& tiles : {layout::Tiles{1, 3}, {3, 1}, {2, 2}}) {
      for (const int ranks : {1, 2, 5}) {
        for (const int prefetch : {0, 2}) {
          on_ranks(ranks, [&](comm::Communicator& world) {
            Layer layer(world, features, tiles, prefetch);
            for (int pass = 0; pass < 2; ++pass) EXPECT_TRUE(layer.leases_are_right()) << features << " " << to_string(tiles);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::parallel
