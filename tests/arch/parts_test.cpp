#include "arch/parts.h"

#include <gtest/gtest.h>

#include <set>

#include "support/random_models.h"

namespace lockstep::arch {
namespace {

using layout::LeaseSize;
using layout::Part;

/// The roles of the parameters that lie in the parts, each of which must lie whole in one.
std::set<int> roles_in(const std::vector<Part>& parts, const std::vector<layout::Unit>& units) {
  std::set<int> roles;
  for (const Part& part : parts) {
    for (const layout::PlacedParameter& parameter : units[static_cast<std::size_t>(part.unit.value)].parameters) {
      const layout::Range own{parameter.offset, parameter.shape().elements()};
      const layout::Range common = layout::overlap(own, part.elements);
      EXPECT_TRUE(common.count == 0 || common == own);
      if (common.count == 0) continue;
      EXPECT_TRUE(roles.insert(parameter.info.role).second);
    }
  }
  return roles;
}

TEST(Parts, OfABlocksSubLayersAreItsParametersEachInOne) {
  std::mt19937 random(5);
  for (int model = 0; model < 30; ++model) {
    const ModelConfig config = support::random_model(random);
    for (const DecayRule decay : {DecayRule::matrices, DecayRule::all}) {
      for (const int ranks : {1, 2}) {
        const std::vector<layout::Unit> units = units_of(unit_table(config, decay), {ranks - 1, ranks});
        const PartMap whole = part_map(config, units, {.size = LeaseSize::block}),
                      cut = part_map(config, units, {.size = LeaseSize::sub_layer});
        EXPECT_EQ(cut.embedding, whole.embedding);
        EXPECT_EQ(cut.head, whole.head);
        for (std::size_t i = 0; i < whole.blocks.size(); ++i) {
          EXPECT_EQ(whole.blocks[i].attention, whole.blocks[i].mlp);
          const std::set<int> attention = roles_in(cut.blocks[i].attention, units), mlp = roles_in(cut.blocks[i].mlp, units);
          EXPECT_TRUE(attention.contains(static_cast<int>(Role::qkv_weight)));
          EXPECT_TRUE(mlp.contains(static_cast<int>(Role::down_weight)));
          std::set<int> both = attention;
          both.insert(mlp.begin(), mlp.end());
          EXPECT_EQ(both.size(), attention.size() + mlp.size());
          EXPECT_EQ(both, roles_in(whole.blocks[i].attention, units));
          EXPECT_LE(cut.blocks[i].attention.size(), 2U);
          EXPECT_LE(cut.blocks[i].mlp.size(), 2U);
        }
      }
    }
  }
}

/// The models' matrices are narrower than what tiles are cut at: these are not.
ModelConfig wide(bool gated) {
  ModelConfig config;
  config.layers = 2;
  config.heads = config.kv_heads = 3;
  config.head_size = 200;
  config.width = 520;
  config.ffn_width = 700;
  config.vocabulary = 65;
  config.bias = config.qkv_bias = !gated;
  config.gated = gated;
  return config;
}

/// How often each element of a block's unit is leased: by itself, or as a tile's.
std::vector<int> times_leased(const BlockParts& block, const layout::Unit& unit) {
  std::vector<int> times(static_cast<std::size_t>(unit.elements));
  const auto count = [&](const Part& part) {
    std::int64_t elements = 0;
    for (std::int64_t i = part.elements.first; i < part.elements.end(); ++i) {
      const std::int64_t column = part.tile() ? (i - part.elements.first) % part.row - part.columns.first : 0;
      if (column < 0 || (part.tile() && column >= part.columns.count)) continue;
      EXPECT_EQ(part.count_before(i), elements);
      ++times[static_cast<std::size_t>(i)];
      ++elements;
    }
    EXPECT_EQ(part.count(), elements);
    EXPECT_EQ(part.count_before(part.elements.end()), elements);
  };
  for (const std::vector<Part>* parts : {&block.attention, &block.mlp}) {
    for (const Part& part : *parts) count(part);
  }
  for (const TiledMatrix& matrix : block.tiled) {
    for (const Tile& tile : matrix.tiles) count(tile.part);
  }
  return times;
}

TEST(Parts, WithTilesABlockIsLeasedOncePerElement) {
  for (const bool gated : {false, true}) {
    const ModelConfig config = wide(gated);
    for (const DecayRule decay : {DecayRule::matrices, DecayRule::all}) {
      const std::vector<layout::Unit> units = units_of(unit_table(config, decay));
      for (const layout::Tiles& tiles : {layout::Tiles{1, 4}, layout::Tiles{3, 1}, layout::Tiles{2, 2, 1000 * 700 * 4}}) {
        const PartMap map = part_map(config, units, {.tiles = tiles});
        for (std::size_t b = 0; b < map.blocks.size(); ++b) {
          const UnitIndex index = unit_map(config).blocks[b];
          const layout::Unit& unit = units[static_cast<std::size_t>(index.value)];
          const std::vector<int> times = times_leased(map.blocks[b], unit);
          for (const layout::PlacedParameter& parameter : unit.parameters) {
            for (std::int64_t i = 0; i < parameter.shape().elements(); ++i)
              ASSERT_EQ(times[static_cast<std::size_t>(parameter.offset + i)], 1) << parameter.info.name << " " << i;
          }
          EXPECT_LE(map.blocks[b].attention.size(), 3U);
          EXPECT_LE(map.blocks[b].mlp.size(), 3U);
        }
      }
    }
  }
}

TEST(Parts, TilesAreOfMatricesAboveTheirLimit) {
  const ModelConfig config = wide(false);
  const std::vector<layout::Unit> units = units_of(unit_table(config));
  const std::int64_t up =
      700 * 520;  // as large as the matrix that goes down; q, k and v are larger, attention's output is smaller
  const auto roles = [&](std::int64_t limit, DType type) {
    std::vector<Role> all;
    const PartMap map = part_map(config, units, {.tiles = {1, 2, limit}, .type = type});
    for (const TiledMatrix& matrix : map.blocks[0].tiled) all.push_back(matrix.role);
    return all;
  };
  EXPECT_EQ(roles(0, DType::f32).size(), 4U);
  EXPECT_EQ(roles(4 * up - 1, DType::f32), (std::vector{Role::qkv_weight, Role::up_weight, Role::down_weight}));
  EXPECT_EQ(roles(4 * up, DType::f32), std::vector{Role::qkv_weight});
  EXPECT_EQ(roles(2 * up, DType::bf16), std::vector{Role::qkv_weight});
  EXPECT_EQ(roles(1 << 30, DType::f32).size(), 0U);
}

TEST(Parts, TilesOfABackwardPassFinishAColumnBeforeTheNext) {
  const ModelConfig config = wide(false);
  const PartMap map = part_map(config, units_of(unit_table(config)), {.tiles = {2, 3}});
  const TiledMatrix* up = map.blocks[0].find(Role::up_weight);
  ASSERT_NE(up, nullptr);
  ASSERT_EQ(up->tiles.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(up->tiles[i].columns.first, i % 2 == 0 ? 0 : 256);
    EXPECT_EQ(up->backward(i).columns.first, i < 3 ? 0 : 256);
    EXPECT_EQ(up->backward(i).rows.first, static_cast<std::int64_t>(256 * (i % 3)));
  }
  EXPECT_EQ(tile_sums(map, DType::bf16), 768);  // q, k and v: 1800 out-features in three tiles, the second of 768
  EXPECT_EQ(tile_sums(map, DType::f32), 256);   // of the residual stream, 520 wide
}

}  // namespace
}  // namespace lockstep::arch
