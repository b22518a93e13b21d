// Attention in samples of several documents: what it makes is what each document makes by itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "ops/attention.h"
#include "support/documents.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::AttentionShape;

struct Case {
  std::int64_t head_size;
  DType type;
  std::vector<std::int64_t> lengths;  ///< of a sample's documents
  double scale = 0;
};

constexpr std::int64_t heads = 4, kv_heads = 2;

struct Inputs {
  HostTensor q, k, v, d_o;
  Inputs(const Case& c, std::int64_t rows) {
    const auto random = [&](std::int64_t count, std::uint32_t seed) {
      return HostTensor::random({rows, count * c.head_size}, seed, 2).as(c.type);
    };
    q = random(heads, 1), k = random(kv_heads, 2), v = random(kv_heads, 3), d_o = random(heads, 4);
  }
};

struct Outputs {
  HostTensor o, dq, dk, dv;
};

Outputs learn(ops::Attention& attention, const AttentionShape& shape, const Inputs& in, const Tensor& starts,
              const ops::DropoutSite& site = {}) {
  Outputs out{in.q, in.q, in.k, in.k};
  const HostTensor lse({shape.samples * heads, shape.queries});
  const HostTensor delta({in.q.tensor().rows(), ops::delta_columns(heads, shape.head_size, in.q.type())});
  attention.forward({out.o, lse, in.q, in.k, in.v, shape, site, false, starts});
  attention.backward({out.dq, out.dk, out.dv, delta, in.d_o, out.o, lse, in.q, in.k, in.v, shape, site, false, starts});
  return out;
}

void expect_near(const Outputs& a, const Outputs& b, double tolerance) {
  EXPECT_LE(distance(a.o.values(), b.o.values()), tolerance);
  EXPECT_LE(distance(a.dq.values(), b.dq.values()), tolerance);
  EXPECT_LE(distance(a.dk.values(), b.dk.values()), tolerance);
  EXPECT_LE(distance(a.dv.values(), b.dv.values()), tolerance);
}

std::vector<Case> cases() {
  return {{10, DType::f32, {3, 1, 1, 7}},       {20, DType::f32, {64, 64, 30}},   {1, DType::f32, {100, 3, 140}},
          {16, DType::f32, {5, 200, 1, 90, 4}}, {20, DType::bf16, {63, 66, 129}}, {16, DType::f32, {64, 1, 70}, 5},
          {20, DType::bf16, {3, 130}, 1e3}};
}

AttentionShape shape_of(const Case& c, std::int64_t samples, std::int64_t rows) {
  AttentionShape shape{samples, rows, rows, rows, heads, kv_heads, c.head_size};
  shape.scale = c.scale;
  return shape;
}

/// What each document of a sample makes by itself, one behind the other.
Outputs each_alone(ops::Attention& attention, const Case& c, const Inputs& in) {
  Outputs all{HostTensor(in.q.tensor().shape), HostTensor(in.q.tensor().shape), HostTensor(in.k.tensor().shape),
              HostTensor(in.k.tensor().shape)};
  std::int64_t first = 0;
  for (const std::int64_t length : c.lengths) {
    const auto part = [&](const HostTensor& of) { return rows_of(of, of.tensor().rows(), {first, length}); };
    Inputs own = in;
    own.q = part(in.q), own.k = part(in.k), own.v = part(in.v), own.d_o = part(in.d_o);
    const Outputs made = learn(attention, shape_of(c, 1, length), own, {});
    for (const auto& [whole, some] :
         {std::pair{&all.o, &made.o}, std::pair{&all.dq, &made.dq}, std::pair{&all.dk, &made.dk}, std::pair{&all.dv, &made.dv}})
      std::ranges::copy(some->values(), whole->values().begin() + first * whole->tensor().columns());
    first += length;
  }
  return all;
}

TEST(AttentionDocuments, MakeWhatEachMakesAlone) {
  const auto reference = ops::make_reference_ops();
  for (const Case& c : cases()) {
    support::Documents documents(c.lengths, 1);
    const Inputs in(c, documents.positions());
    const double tolerance = c.type == DType::bf16 ? 1e-2 : 1e-5;
    const Outputs expected = each_alone(reference->attention(), c, in);
    const AttentionShape shape = shape_of(c, 1, documents.positions());
    expect_near(learn(reference->attention(), shape, in, documents.starts()), expected, tolerance);
    for (const auto& machine : machines()) {
      SCOPED_TRACE(machine->name);
      expect_near(learn(machine->ops->attention(), shape, in, documents.starts()), expected, tolerance);
    }
  }
}

TEST(AttentionDocuments, DropWhatTheReferenceDropsOnEveryIsa) {
  const auto reference = ops::make_reference_ops();
  for (const Case& c : cases()) {
    support::Documents documents(c.lengths, 2);
    const Inputs in(c, 2 * documents.positions());
    ops::DropoutSite site{.p = 0.3F, .first_sample = 3, .index_stride = documents.positions() + 1};
    ops::make_key(site.key, 7, 3, 1, ops::Site::attention_weights);
    const AttentionShape shape = shape_of(c, 2, documents.positions());
    const Outputs expected = learn(reference->attention(), shape, in, documents.starts(), site);
    const Outputs best = learn(machines().front()->ops->attention(), shape, in, documents.starts(), site);
    for (const auto& machine : machines()) {
      SCOPED_TRACE(machine->name);
      const Outputs made = learn(machine->ops->attention(), shape, in, documents.starts(), site);
      expect_near(made, expected, c.type == DType::bf16 ? 1e-2 : 1e-5);
      if (machine->isa != ops::Isa::baseline) expect_near(made, best, 0);
    }
  }
}

TEST(AttentionDocuments, OneHasTheBitsOfASampleWithout) {
  for (const Case& c : cases()) {
    support::Documents documents({150}, 2);
    const Inputs in(c, 300);
    ops::Attention& attention = machines().front()->ops->attention();
    const AttentionShape shape = shape_of(c, 2, 150);
    expect_near(learn(attention, shape, in, documents.starts()), learn(attention, shape, in, {}), 0);
  }
}

TEST(AttentionDocuments, HaveAStartForEveryPosition) {
  const auto ops = ops::make_reference_ops();
  const Case c{3, DType::f32, {}};
  const Inputs in(c, 10);
  support::Documents shorter({4}, 2), fewer({5}, 1);
  EXPECT_THROW(learn(ops->attention(), shape_of(c, 2, 5), in, shorter.starts()), BrokenRule);
  EXPECT_THROW(learn(ops->attention(), shape_of(c, 2, 5), in, fewer.starts()), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
