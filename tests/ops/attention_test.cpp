// The CPU's attention against the reference in double, and against itself. Every cut of the work, every thread count and both
// vector instruction sets give the same bits.

#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "ops/cpu/attention/task.h"
#include "reference/dropout.h"
#include "reference/families.h"
#include "support/ops.h"

namespace lockstep::ops {
namespace {

using test::HostTensor;
using test::Machine;
using test::machines;
using Floats = std::vector<float>;

struct Sizes {
  std::int64_t samples, rows, heads, kv_heads, head_size;
  DType type = DType::f32;
  double scale = 0, softcap = 0;
  friend std::ostream& operator<<(std::ostream& out, const Sizes& s) {
    return out << name_of(s.type) << "_B" << s.samples << "_T" << s.rows << "_H" << s.heads << "_K" << s.kv_heads << "_D"
               << s.head_size << (s.softcap > 0 ? "_capped" : "");
  }
};

HostTensor random_matrix(std::int64_t rows, std::int64_t columns, std::string_view name, double spread = 1) {
  const CounterRng rng(1337, name);
  HostTensor matrix({rows, columns});
  std::uint64_t i = 0;
  for (float& value : matrix.values()) value = static_cast<float>(spread * (4 * rng.uniform(i++) - 2));
  return matrix;
}

HostTensor unwritten(std::int64_t rows, std::int64_t columns, DType type) {
  return HostTensor::filled({rows, columns}, NAN).as(type);
}

/// q, k and v side by side in the rows of one matrix, as a fused product leaves them.
struct Fused {
  Sizes sizes;
  HostTensor values;
  Fused(const Sizes& s, HostTensor v) : sizes(s), values(v.as(s.type)) {}
  Fused(const Sizes& s, std::string_view name, double spread = 1)
      : Fused(s, random_matrix(s.samples * s.rows, columns(s), name, spread)) {}
  static std::int64_t columns(const Sizes& s) { return (s.heads + 2 * s.kv_heads) * s.head_size; }
  Tensor part(std::int64_t first_head, std::int64_t heads) const {
    return values.tensor().slice_columns(first_head * sizes.head_size, heads * sizes.head_size);
  }
  Tensor q() const { return part(0, sizes.heads); }
  Tensor k() const { return part(sizes.heads, sizes.kv_heads); }
  Tensor v() const { return part(sizes.heads + sizes.kv_heads, sizes.kv_heads); }
};

struct Results {
  HostTensor o, lse, d_qkv;
};

AttentionShape whole(const Sizes& s) {
  AttentionShape shape{s.samples, s.rows, s.rows, s.rows, s.heads, s.kv_heads, s.head_size};
  shape.scale = s.scale;
  shape.softcap = s.softcap;
  return shape;
}

/// Forward, then backward with a random gradient of o.
Results run(Attention& attention, const Fused& qkv, const DropoutSite& dropout = {}) {
  const Sizes& s = qkv.sizes;
  const std::int64_t rows = s.samples * s.rows, width = s.heads * s.head_size;
  const HostTensor o = unwritten(rows, width, s.type), lse = unwritten(s.samples * s.heads, s.rows, DType::f32);
  const HostTensor d_o = random_matrix(rows, width, "d_o").as(s.type);
  const HostTensor delta = unwritten(rows, delta_columns(s.heads, s.head_size, s.type), DType::f32);
  const Fused gradient(s, unwritten(rows, Fused::columns(s), s.type));
  attention.forward({o, lse, qkv.q(), qkv.k(), qkv.v(), whole(s), dropout});
  attention.backward(
      {gradient.q(), gradient.k(), gradient.v(), delta, d_o, o, lse, qkv.q(), qkv.k(), qkv.v(), whole(s), dropout});
  return {o, lse, gradient.values};
}

Floats forward_only(Attention& attention, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape,
                    const DropoutSite& dropout = {}) {
  const HostTensor o = unwritten(q.rows(), q.columns(), q.dtype);
  attention.forward({o, {}, q, k, v, shape, dropout});
  return o.values();
}

double relative_error(const HostTensor& result, const HostTensor& expected) {
  const Floats &a = result.values(), &b = expected.values();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

bool same_bits(const Floats& a, const Floats& b) { return test::different_bits(a, b) == 0; }

/// In bf16 a few elements lie near the middle between two numbers and are rounded to the other one. They differ by one part in
/// 256.
void expect_near(const Results& a, const Results& b) {
  const double rounding = a.o.type() == DType::bf16 ? 4e-4 : 0;
  EXPECT_LT(relative_error(a.o, b.o), 2e-6 + rounding);
  EXPECT_LT(relative_error(a.lse, b.lse), 2e-6);
  EXPECT_LT(relative_error(a.d_qkv, b.d_qkv), 4e-6 + rounding);
}

void expect_same(const Results& a, const Results& b) {
  EXPECT_TRUE(same_bits(a.o.values(), b.o.values()));
  EXPECT_TRUE(same_bits(a.lse.values(), b.lse.values()));
  EXPECT_TRUE(same_bits(a.d_qkv.values(), b.d_qkv.values()));
}

DropoutSite some_dropout(std::int64_t rows, float p) {
  DropoutSite site{.p = p, .first_sample = (std::int64_t{1} << 33) + 5, .index_stride = rows};
  make_key(site.key, 7, 3, 1, Site::attention_weights);
  return site;
}

/// The best instruction set on one thread: what the others are compared with.
Machine& best() { return *machines().front(); }

class AttentionOf : public testing::TestWithParam<Sizes> {};

TEST_P(AttentionOf, MatchesTheReferenceOnEveryIsa) {
  Fused qkv(GetParam(), "qkv");
  const Results expected = run(*reference::make_attention(nullptr), qkv);
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    expect_near(run(machine->ops->attention(), qkv), expected);
  }
}

TEST_P(AttentionOf, GivesTheSameBitsOnEveryTeamAndIsa) {
  Fused qkv(GetParam(), "qkv");
  const DropoutSite sites[] = {{}, some_dropout(GetParam().rows, 0.25F)};
  for (const DropoutSite& site : sites) {
    const Results expected = run(best().ops->attention(), qkv, site);
    for (const auto& machine : machines()) {
      if (machine->isa == Isa::baseline) continue;  // it has no fused multiply-add
      SCOPED_TRACE(machine->name);
      expect_same(run(machine->ops->attention(), qkv, site), expected);
    }
  }
}

TEST_P(AttentionOf, DropsWhatTheReferenceDrops) {
  Fused qkv(GetParam(), "qkv");
  const DropoutSite site = some_dropout(GetParam().rows + 3, 0.3F);
  const Results expected = run(*reference::make_attention(nullptr), qkv, site);
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    expect_near(run(machine->ops->attention(), qkv, site), expected);
  }
}

TEST_P(AttentionOf, GivesARowTheSameBitsInAShorterCall) {
  const Sizes s = GetParam();
  Fused qkv(s, "qkv");
  Attention& attention = best().ops->attention();
  const std::int64_t width = s.heads * s.head_size, samples = 1;
  const Floats all = forward_only(attention, qkv.q(), qkv.k(), qkv.v(), whole(s));
  for (std::int64_t first : {std::int64_t{0}, s.rows / 3, s.rows - 1}) {
    for (std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, s.rows}) {
      rows = std::min(rows, s.rows - first);
      // Rows [first, first + rows) of sample 0, with the keys before them in a cache that has room for all.
      AttentionShape shape = whole(s);
      shape.samples = samples;
      shape.queries = rows;
      shape.keys = first + rows;
      const Floats part = forward_only(attention, qkv.q().slice_rows(first, rows), qkv.k().slice_rows(0, s.rows),
                                       qkv.v().slice_rows(0, s.rows), shape);
      EXPECT_TRUE(same_bits(part, Floats(all.begin() + first * width, all.begin() + (first + rows) * width)))
          << rows << " rows from " << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionOf,
                         testing::Values(Sizes{1, 1, 1, 1, 1}, Sizes{2, 7, 2, 2, 30}, Sizes{1, 65, 4, 1, 32},
                                         Sizes{2, 129, 4, 2, 64}, Sizes{1, 64, 3, 3, 128}, Sizes{1, 300, 1, 1, 256},
                                         Sizes{3, 200, 6, 3, 17}, Sizes{1, 1, 1, 1, 1, DType::bf16},
                                         Sizes{2, 7, 2, 2, 30, DType::bf16}, Sizes{2, 129, 4, 2, 64, DType::bf16},
                                         Sizes{1, 300, 1, 1, 256, DType::bf16}, Sizes{3, 200, 6, 3, 17, DType::bf16},
                                         Sizes{2, 129, 4, 2, 64, DType::f32, 0.3, 1.5},
                                         Sizes{3, 200, 6, 3, 17, DType::f32, 0, 0.7},
                                         Sizes{2, 129, 4, 2, 64, DType::bf16, 0.3, 1.5}),
                         testing::PrintToStringParamName());

class AttentionStored : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, AttentionStored, test::storage_types);

TEST_P(AttentionStored, KeepsSeveralWorkersInOrderOnOneHead) {
  Fused qkv({1, 1100, 1, 1, 16, GetParam()}, "qkv");
  Machine four(Isa::automatic, 4);
  const Results expected = run(best().ops->attention(), qkv);
  expect_near(expected, run(*reference::make_attention(nullptr), qkv));
  for (int repeat = 0; repeat < 5; ++repeat) expect_same(run(four.ops->attention(), qkv), expected);
}

TEST(Attention, WalksMoreColumnsThanItHasCounters) {
  Fused qkv({30, 130, 4, 2, 8}, "qkv");
  Machine two(Isa::automatic, 2);
  const Results expected = run(best().ops->attention(), qkv);
  expect_near(expected, run(*reference::make_attention(nullptr), qkv));
  expect_same(run(two.ops->attention(), qkv), expected);
}

TEST(Attention, SurvivesScoresOfAnySize) {
  Fused qkv({1, 150, 2, 2, 32}, "qkv", 50);
  Attention& attention = best().ops->attention();
  const Results results = run(attention, qkv), expected = run(*reference::make_attention(nullptr), qkv);
  EXPECT_LT(relative_error(results.o, expected.o), 1e-3);
  EXPECT_LT(relative_error(results.lse, expected.lse), 2e-6);
  for (const float x : results.d_qkv.values()) ASSERT_TRUE(std::isfinite(x));
}

TEST_P(AttentionStored, WritesNothingBesideItsSlices) {
  const Sizes s{1, 70, 2, 2, 30, GetParam()};
  Fused qkv(s, "qkv");
  Attention& attention = best().ops->attention();
  const std::int64_t width = s.heads * s.head_size;
  const HostTensor wide = HostTensor::filled({s.rows, width + 2}, 42).as(s.type);
  attention.forward({wide.tensor().slice_columns(1, width), {}, qkv.q(), qkv.k(), qkv.v(), whole(s)});
  const Floats dense = forward_only(attention, qkv.q(), qkv.k(), qkv.v(), whole(s)), all = wide.values();
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const auto row = all.begin() + i * (width + 2);
    EXPECT_EQ(row[0], 42.0F);
    EXPECT_EQ(row[width + 1], 42.0F);
    EXPECT_TRUE(same_bits({row + 1, row + 1 + width}, {dense.begin() + i * width, dense.begin() + (i + 1) * width}));
  }
}

/// What bf16 q, k and v give is what the same numbers give in f32, rounded once; so are their gradients, where o agrees.
TEST(Attention, InBf16IsTheF32OfTheSameNumbersRoundedOnce) {
  const Sizes s{2, 150, 4, 2, 20, DType::bf16};
  const Fused qkv(s, "qkv");
  const Fused same({s.samples, s.rows, s.heads, s.kv_heads, s.head_size}, qkv.values.as(DType::f32));
  const std::int64_t rows = s.samples * s.rows, width = s.heads * s.head_size;
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    Attention& attention = machine->ops->attention();
    const Floats o = forward_only(attention, qkv.q(), qkv.k(), qkv.v(), whole(s));
    const HostTensor wide_o = unwritten(rows, width, DType::f32), lse = unwritten(s.samples * s.heads, s.rows, DType::f32);
    attention.forward({wide_o, lse, same.q(), same.k(), same.v(), whole(s)});
    EXPECT_TRUE(same_bits(o, wide_o.as(DType::bf16).values()));
    const HostTensor d_o = random_matrix(rows, width, "d_o").as(DType::bf16), stored_o = wide_o.as(DType::bf16);
    const auto gradient = [&](const Fused& in, DType type) {
      const Fused result(in.sizes, unwritten(rows, Fused::columns(s), type));
      const HostTensor delta = unwritten(rows, delta_columns(s.heads, s.head_size, type), DType::f32);
      attention.backward(
          {result.q(), result.k(), result.v(), delta, d_o.as(type), stored_o.as(type), lse, in.q(), in.k(), in.v(), whole(s)});
      return result.values.as(DType::bf16).values();
    };
    EXPECT_TRUE(same_bits(gradient(qkv, DType::bf16), gradient(same, DType::f32)));
  }
}

TEST(Attention, DropsAShareOfPAndScalesTheRest) {
  // With values that are unit vectors, o holds the weights themselves; equal scores make them 1 / (position + 1).
  const std::int64_t rows = 128;
  const Sizes s{4, rows, 2, 1, rows};
  HostTensor values({s.samples * rows, Fused::columns(s)});
  for (std::int64_t i = 0; i < s.samples * rows; ++i) {
    values[static_cast<std::size_t>(i * Fused::columns(s) + 3 * rows + i % rows)] = 1;
  }
  const Fused qkv(s, values);
  const DropoutSite site = some_dropout(rows, 0.2F);
  Attention& attention = best().ops->attention();
  const Floats o = forward_only(attention, qkv.q(), qkv.k(), qkv.v(), whole(s), site);
  std::int64_t kept = 0, drawn = 0;
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(o.size()); ++at) {
    const std::int64_t key = at % rows, head = at / rows % s.heads, query = at / rows / s.heads % rows,
                       sample = at / rows / s.heads / rows;
    const float weight = o[static_cast<std::size_t>(at)];
    if (key > query) {
      EXPECT_EQ(weight, 0.0F);
      continue;
    }
    const float factor = reference::dropout_factor(site, sample, query, head * rows + key);
    EXPECT_NEAR(weight * static_cast<float>(query + 1), factor, 1e-6F);
    ++drawn;
    if (weight > 0) ++kept;
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(drawn), 0.8, 0.01);
}

TEST(Attention, RefusesHeadsLargerThanItsWorkspace) {
  Fused qkv({1, 2, 1, 1, 257}, "qkv");
  Attention& attention = best().ops->attention();
  EXPECT_THROW(forward_only(attention, qkv.q(), qkv.k(), qkv.v(), whole(qkv.sizes)), BrokenRule);
  EXPECT_THROW(run(attention, qkv), BrokenRule);
}

TEST(Attention, HoldsAWorkspaceForEveryWorker) {
  const std::int64_t one = Machine(Isa::automatic, 1).ops->workspace_bytes();
  const std::int64_t two = Machine(Isa::automatic, 2).ops->workspace_bytes();
  EXPECT_GE(two - one, cpu::workspace_floats() * std::int64_t{sizeof(float)});  // linear() has some for each, too
}

}  // namespace
}  // namespace lockstep::ops
