// Attention whose weights lie whole in memory. It has the reference's numbers, and equal bits however it is computed. Tiled
// attention's result is the same up to the order of additions.

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "support/ops.h"

namespace lockstep::ops {
namespace {

using test::HostTensor;
using test::Results;

struct Whole {
  std::int64_t samples, rows, heads, kv_heads, head_size;
  DType type = DType::f32;
  float dropout = 0;
  bool masked = false, documents = false;

  AttentionShape shape() const {
    return {.samples = samples,
            .queries = rows,
            .keys = rows,
            .key_rows = rows,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_size = head_size};
  }
  DropoutSite site() const {
    DropoutSite site{.p = dropout, .first_sample = 3, .first_index = 2 * rows, .index_stride = rows};
    make_key(site.key, 1337, 5, 1, Site::attention_weights);
    return site;
  }
};

/// Forward and backward pass; `tiled`: the usual one.
Results both_passes(Ops& ops, const Whole& of, bool tiled = false) {
  const std::int64_t tokens = of.samples * of.rows, width = of.heads * of.head_size, kv_width = of.kv_heads * of.head_size;
  const auto random = [&](std::int64_t columns, std::uint32_t seed) {
    return HostTensor::random({tokens, columns}, seed, 2).as(of.type);
  };
  const HostTensor q = random(width, 1), k = random(kv_width, 2), v = random(kv_width, 3), d_o = random(width, 4);
  const DType sums = of.heads > of.kv_heads ? DType::f32 : of.type;
  HostTensor o({tokens, width}, of.type), dq = o, dk({tokens, kv_width}, sums), dv = dk;
  HostTensor weights({tokens * of.heads, of.rows}), aside = weights, mask({of.rows, of.rows}), lse({tokens * of.heads});
  HostTensor delta({tokens * delta_columns(of.heads, of.head_size, tiled ? of.type : DType::f32)});
  std::vector<std::int32_t> starts(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto position = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % of.rows);
    starts[i] = position / 5 * 5;
  }
  const Tensor documents = of.documents ? test::ids_tensor(starts).reshape({of.samples, of.rows}) : Tensor{};
  WholeWeights whole;
  if (!tiled) whole = {.weights = weights, .aside = aside, .mask = of.masked ? mask.tensor() : Tensor{}};
  const Tensor statistics = tiled ? lse.tensor() : Tensor{};
  ops.attention().forward({.o = o,
                           .lse = statistics,
                           .q = q,
                           .k = k,
                           .v = v,
                           .shape = of.shape(),
                           .dropout = of.site(),
                           .starts = documents,
                           .whole = whole});
  const HostTensor kept = weights;
  ops.attention().backward({.dq = dq,
                            .dk = dk,
                            .dv = dv,
                            .delta = delta,
                            .d_o = d_o,
                            .o = o,
                            .lse = statistics,
                            .q = q,
                            .k = k,
                            .v = v,
                            .shape = of.shape(),
                            .dropout = of.site(),
                            .starts = documents,
                            .whole = whole});
  Results results{o, dq, dk, dv};
  if (!tiled) results.push_back(kept);
  return results;
}

const std::vector<Whole> cases{{2, 7, 3, 3, 10},
                               {1, 1, 1, 1, 4},
                               {2, 70, 4, 2, 16},
                               {1, 130, 2, 1, 24, DType::f32, 0.25F},
                               {2, 33, 2, 2, 8, DType::f32, 0.1F, true},
                               {1, 65, 4, 2, 16, DType::bf16, 0.1F},
                               {2, 40, 2, 2, 16, DType::bf16, 0, true},
                               {2, 23, 2, 1, 8, DType::f32, 0, false, true}};

TEST(WholeWeights, EqualTheReferenceOnEveryMachine) {
  for (const Whole& of : cases)
    test::compare_everywhere([&](Ops& ops) { return both_passes(ops, of); }, of.type == DType::bf16 ? 1e-2 : 1e-5);
}

TEST(WholeWeights, GiveWhatTilesGive) {
  for (const Whole& of : cases) {
    if (of.heads > of.kv_heads && of.type == DType::bf16) continue;  // sums of another type
    const Results whole = both_passes(*test::machines().back()->ops, of);
    const Results tiled = both_passes(*test::machines().back()->ops, of, true);
    for (std::size_t i = 0; i < tiled.size(); ++i)
      EXPECT_LE(test::distance(whole[i].values(), tiled[i].values()), of.type == DType::bf16 ? 1e-2 : 1e-5) << "result " << i;
  }
}

TEST(WholeWeights, AMaskThatIsKeptChangesNoBit) {
  for (Whole of : cases) {
    if (of.documents) continue;
    of.masked = false;
    const Results computed = both_passes(*test::machines().back()->ops, of);
    of.masked = true;
    const Results stored = both_passes(*test::machines().back()->ops, of);
    for (std::size_t i = 0; i < stored.size(); ++i)
      EXPECT_EQ(test::different_bits(stored[i].values(), computed[i].values()), 0U) << "result " << i;
  }
}

TEST(WholeWeights, PlainProductsChangeNoBit) {
  const auto runtime = open_runtime(Device{}, {2});
  const auto stream = runtime->make_stream();
  const auto plain = make_ops(*runtime, *stream, {.cpu = {.plain = {.products = true}}});
  const auto best = make_ops(*runtime, *stream, {.cpu = {.bf16 = Bf16Order::widened}});
  for (const Whole& of : cases) {
    const Results expected = both_passes(*best, of), results = both_passes(*plain, of);
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(test::different_bits(results[i].values(), expected[i].values()), 0U) << "result " << i;
  }
}

TEST(WholeWeights, RowsSumToOneAndHideWhatComesLater) {
  const Whole of{1, 9, 1, 1, 4};
  const HostTensor weights = both_passes(*test::machines().back()->ops, of).back();
  for (std::size_t i = 0; i < 9; ++i) {
    const auto row = weights.values().begin() + static_cast<std::ptrdiff_t>(9 * i);
    EXPECT_NEAR(std::accumulate(row, row + 9, 0.0), 1, 1e-6);
    for (std::size_t j = i + 1; j < 9; ++j) EXPECT_EQ(weights[9 * i + j], 0.0F);
  }
}

TEST(WholeWeights, BadCallsAreRefused) {
  Ops& ops = *test::machines().front()->ops;
  const Whole of{1, 6, 2, 2, 4};
  const HostTensor q({6, 8}), o = q, weights({12, 6}), small({11, 6}), mask({6, 6});
  const AttentionForward sound{.o = o,
                               .lse = {},
                               .q = q,
                               .k = q,
                               .v = q,
                               .shape = of.shape(),
                               .whole = {.weights = weights, .aside = weights, .mask = mask}};
  const auto refused = [&](const std::function<void(AttentionForward&)>& change) {
    AttentionForward call = sound;
    change(call);
    EXPECT_THROW(ops.attention().forward(call), BrokenRule);
  };
  refused([&](AttentionForward& call) { call.whole.weights = {}; });
  refused([&](AttentionForward& call) { call.whole.weights = small; });
  refused([&](AttentionForward& call) { call.whole.aside = {}; });
  refused([&](AttentionForward& call) { call.whole.mask = small; });
  refused([&](AttentionForward& call) { call.shape.later = 1; });
  std::vector<std::int32_t> starts(6);
  refused([&](AttentionForward& call) { call.starts = test::ids_tensor(starts).reshape({1, 6}); });
  const Whole shared{1, 6, 2, 1, 4, DType::bf16};
  const HostTensor wide({6, 8}, DType::bf16), narrow({6, 4}, DType::bf16), delta({12});
  AttentionBackward call{.dq = wide,
                         .dk = narrow,
                         .dv = narrow,
                         .delta = delta,
                         .d_o = wide,
                         .o = wide,
                         .lse = {},
                         .q = wide,
                         .k = narrow,
                         .v = narrow,
                         .shape = shared.shape(),
                         .whole = {.weights = weights, .aside = weights}};
  EXPECT_THROW(ops.attention().backward(call), BrokenRule) << "two heads add up to a sum of bf16";
}

}  // namespace
}  // namespace lockstep::ops
