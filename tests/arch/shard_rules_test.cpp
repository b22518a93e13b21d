#include "arch/shard_rules.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/random_models.h"

namespace lockstep::arch {
namespace {

using layout::PlacedParameter;
using layout::Rectangle;

/// The elements of the whole tensor, in the order of the rectangles; or only those that are owned.
std::vector<std::int64_t> elements_of(const std::vector<Rectangle>& rectangles, bool owned = false) {
  std::vector<std::int64_t> all;
  for (const Rectangle& r : rectangles) {
    if (owned && !r.owned) continue;
    for (std::int64_t i = 0; i < r.rows * r.columns; ++i) all.push_back(r.global + i / r.columns * r.stride + i % r.columns);
  }
  return all;
}

/// Every parameter of the model as all ranks hold it.
std::map<std::string, std::vector<PlacedParameter>> shards_of(const ModelConfig& config, int ranks) {
  std::map<std::string, std::vector<PlacedParameter>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const layout::Unit& unit : units_of(unit_table(config), {rank, ranks})) {
      for (const PlacedParameter& placed : unit.parameters) all[placed.info.name].push_back(placed);
    }
  }
  return all;
}

/// Which ranks hold each element; every one is owned once, and its local place is the same however it is asked for.
std::vector<std::set<int>> check_tiling(const std::vector<PlacedParameter>& shards, std::mt19937& random) {
  std::vector<int> owners(static_cast<std::size_t>(shards[0].info.shape.elements()));
  std::vector<std::set<int>> holders(owners.size());
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const layout::Shard& shard = shards[rank].shard;
    const std::int64_t size = shard.shape().elements();
    const std::vector<Rectangle> rectangles = shard.rectangles({0, size});
    std::int64_t local = 0;
    for (const Rectangle& r : rectangles) {
      EXPECT_EQ(r.local, local);
      local += r.rows * r.columns;
    }
    EXPECT_EQ(local, size);
    const std::vector<std::int64_t> held = elements_of(rectangles);
    for (const std::int64_t element : held)
      EXPECT_TRUE(holders.at(static_cast<std::size_t>(element)).insert(static_cast<int>(rank)).second);
    for (const std::int64_t element : elements_of(rectangles, true)) ++owners.at(static_cast<std::size_t>(element));
    const auto upto = [&](std::int64_t bound) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound + 1)); };
    const std::int64_t first = upto(size), count = upto(size - first);
    EXPECT_EQ(elements_of(shard.rectangles({first, count})),
              (std::vector<std::int64_t>(held.begin() + first, held.begin() + first + count)));
    std::vector<std::int64_t> owned;
    for (const layout::Range& range : {layout::Range{0, first}, {first, count}, {first + count, size - first - count}}) {
      const std::vector<std::int64_t> part = elements_of(shard.rectangles(range), true);
      owned.insert(owned.end(), part.begin(), part.end());
    }
    EXPECT_EQ(owned, elements_of(rectangles, true));
  }
  for (const int count : owners) EXPECT_EQ(count, 1) << shards[0].info.name;
  return holders;
}

/// Gradients are partial over exactly those ranks that hold an element and work for other heads or tokens.
void check_partial(const std::vector<PlacedParameter>& shards, const std::vector<std::set<int>>& holders) {
  const bool whole = shards[0].info.rule.axis < 0 && !shards[0].info.rule.partial;
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const layout::Shard& shard = shards[rank].shard;
    const std::vector<std::int64_t> held = elements_of(shard.rectangles({0, shard.shape().elements()}));
    for (const bool sequence : {false, true}) {
      std::vector<std::set<int>> said(held.size());
      for (const layout::SharedRange& range : shard.partial(sequence)) {
        for (std::int64_t i = range.elements.first; i < range.elements.end(); ++i)
          said.at(static_cast<std::size_t>(i)).insert(range.ranks.begin(), range.ranks.end());
      }
      for (std::size_t i = 0; i < held.size(); ++i) {
        const std::set<int>& all = holders[static_cast<std::size_t>(held[i])];
        const bool summed = all.size() > 1 && (!whole || sequence);
        EXPECT_EQ(said[i], summed ? all : std::set<int>{}) << shards[0].info.name;
      }
    }
  }
}

TEST(ShardRules, ShardsTileEveryTensorExactlyOnce) {
  std::mt19937 random(1);
  for (int model = 0; model < 60; ++model) {
    const ModelConfig config = support::random_model(random);
    ASSERT_TRUE(check(config).empty());
    for (int ranks = 1; ranks <= 8; ++ranks) {
      SCOPED_TRACE(::testing::Message() << "model " << model << " on " << ranks << " ranks");
      for (const auto& [name, shards] : shards_of(config, ranks)) check_partial(shards, check_tiling(shards, random));
      if (HasFailure()) return;
    }
  }
}

TEST(ShardRules, SizesOfAShareAreThoseOfItsParameters) {
  std::mt19937 random(2);
  for (int model = 0; model < 60; ++model) {
    const ModelConfig config = support::random_model(random);
    for (int ranks = 1; ranks <= 8; ++ranks) {
      std::int64_t heads = 0, tokens = 0, features = 0, greatest = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const layout::ShardedDims dims = sharded_dims(config, {rank, ranks});
        EXPECT_EQ(dims.first_head, heads);
        EXPECT_EQ(dims.first_token, tokens);
        EXPECT_EQ(dims.vocabulary_part, rank);
        EXPECT_EQ(dims.vocabulary_parts, ranks);
        greatest = std::max(greatest, dims.vocabulary);
        heads += dims.heads;
        tokens += dims.vocabulary;
        features += dims.ffn_width;
        for (const layout::Unit& unit : units_of(unit_table(config), {rank, ranks})) {
          for (const PlacedParameter& placed : unit.parameters) {
            switch (static_cast<Role>(placed.info.role)) {
              case Role::qkv_weight:
                EXPECT_EQ(placed.shape(), (Shape{dims.qkv_width(), dims.width}));
                break;
              case Role::attention_out_weight:
                EXPECT_EQ(placed.shape(), (Shape{dims.width, dims.attention_width()}));
                break;
              case Role::up_weight:
                EXPECT_EQ(placed.shape(), (Shape{dims.up_width(), dims.width}));
                break;
              case Role::down_weight:
                EXPECT_EQ(placed.shape(), (Shape{dims.width, dims.ffn_width}));
                break;
              case Role::token_table:
              case Role::head_weight:
                EXPECT_EQ(placed.shape(), (Shape{dims.vocabulary, dims.width}));
                break;
              default:
                break;
            }
          }
        }
      }
      EXPECT_EQ(sharded_dims(config, {0, ranks}).greatest_vocabulary, greatest);
      EXPECT_EQ(heads, config.heads);
      EXPECT_EQ(tokens, config.vocabulary);
      EXPECT_EQ(features, config.ffn_width);
    }
  }
}

// Every head of a rank finds its KV head there, and no KV head is there for nothing.
TEST(ShardRules, HeadsFindTheirKvHeads) {
  std::mt19937 random(3);
  for (int model = 0; model < 60; ++model) {
    const ModelConfig config = support::random_model(random);
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int rank = 0; rank < ranks; ++rank) {
        const layout::ShardedDims dims = sharded_dims(config, {rank, ranks});
        std::set<std::int64_t> used;
        for (std::int64_t head = 0; head < dims.heads; ++head) {
          const std::int64_t kv = dims.kv_head_of(head);
          EXPECT_EQ(dims.first_kv_head + kv, (dims.first_head + head) / (config.heads / config.kv_heads));
          EXPECT_LT(kv, dims.kv_heads);
          used.insert(kv);
        }
        EXPECT_EQ(static_cast<std::int64_t>(used.size()), dims.kv_heads);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::arch
