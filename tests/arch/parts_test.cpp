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
        const PartMap whole = part_map(config, units, LeaseSize::block), cut = part_map(config, units, LeaseSize::sub_layer);
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

}  // namespace
}  // namespace lockstep::arch
