// Attention by parts of the keys, as ranks that pass keys round a ring compute it. The parts together make what one call makes,
// up to rounding.

#include <gtest/gtest.h>

#include <ostream>

#include "ops/attention.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

struct Whole {
  std::int64_t samples, rows, heads, kv_heads, head_size;
  DType type;
  float dropped = 0.3F;
  friend std::ostream& operator<<(std::ostream& out, const Whole& w) {
    return out << name_of(w.type) << "_B" << w.samples << "_T" << w.rows << "_H" << w.heads << "_K" << w.kv_heads << "_D"
               << w.head_size;
  }
  ops::AttentionShape shape() const { return {samples, rows, rows, rows, heads, kv_heads, head_size}; }
  ops::DropoutSite dropout() const {
    ops::DropoutSite site{.p = dropped, .first_sample = 3, .index_stride = rows + 1};
    ops::make_key(site.key, 7, 3, 1, ops::Site::attention_weights);
    return site;
  }
};

struct Inputs {
  HostTensor q, k, v, d_o;
  explicit Inputs(const Whole& w) {
    const auto random = [&](std::int64_t heads, std::uint32_t seed) {
      return HostTensor::random({w.samples * w.rows, heads * w.head_size}, seed, 2).as(w.type);
    };
    q = random(w.heads, 1), k = random(w.kv_heads, 2), v = random(w.kv_heads, 3), d_o = random(w.heads, 4);
  }
};

/// All f32; rows of all positions of all samples.
struct Outputs {
  HostTensor o, dq, dk, dv;
  explicit Outputs(const Whole& w)
      : o({w.samples * w.rows, w.heads * w.head_size}), dq(o), dk({w.samples * w.rows, w.kv_heads * w.head_size}), dv(dk) {}
};

Outputs at_once(ops::Attention& attention, const Whole& w, const Inputs& in) {
  Outputs out(w);
  const HostTensor lse({w.samples * w.heads, w.rows});
  const HostTensor delta({in.q.tensor().rows(), ops::delta_columns(w.heads, w.head_size, DType::f32)});
  attention.forward({out.o, lse, in.q, in.k, in.v, w.shape(), w.dropout()});
  attention.backward({out.dq, out.dk, out.dv, delta, in.d_o, out.o.as(w.type), lse, in.q, in.k, in.v, w.shape(), w.dropout()});
  return out;
}

/// The queries of each run go over the parts of the keys that they see, its own first.
Outputs by_parts(ops::Attention& attention, const Whole& w, const Inputs& in, const std::vector<ops::PositionRun>& runs) {
  Outputs out(w);
  for (std::int64_t sample = 0; sample < w.samples; ++sample) {
    const auto rows = [&](const Tensor& of, const ops::PositionRun& run) {
      return of.slice_rows(sample * w.rows + run.first, run.count);
    };
    ops::DropoutSite site = w.dropout();
    site.first_sample += sample;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const HostTensor lse({w.heads, runs[i].count});
      const HostTensor delta({runs[i].count, ops::delta_columns(w.heads, w.head_size, DType::f32)});
      const auto shape_with = [&](const ops::PositionRun& keys) {
        ops::AttentionShape shape = w.shape();
        shape.samples = 1, shape.queries = runs[i].count, shape.keys = shape.key_rows = keys.count;
        shape.first_key = keys.first, shape.later = runs[i].end() - keys.end();
        return shape;
      };
      const Tensor q = rows(in.q, runs[i]), o = rows(out.o, runs[i]);
      for (std::size_t j = i + 1; j-- > 0;) {
        attention.forward({o, lse, q, rows(in.k, runs[j]), rows(in.v, runs[j]), shape_with(runs[j]), site, j < i});
      }
      const HostTensor stored = rows_of(out.o, w.samples * w.rows, {sample * w.rows + runs[i].first, runs[i].count}).as(w.type);
      for (std::size_t j = i + 1; j-- > 0;) {
        attention.backward({.dq = rows(out.dq, runs[i]),
                            .dk = rows(out.dk, runs[j]),
                            .dv = rows(out.dv, runs[j]),
                            .delta = delta,
                            .d_o = rows(in.d_o, runs[i]),
                            .o = stored,
                            .lse = lse,
                            .q = q,
                            .k = rows(in.k, runs[j]),
                            .v = rows(in.v, runs[j]),
                            .shape = shape_with(runs[j]),
                            .dropout = site,
                            .further = true});
      }
    }
  }
  return out;
}

void expect_near(const Outputs& a, const Outputs& b, double tolerance) {
  EXPECT_LE(distance(a.o.values(), b.o.values()), tolerance);
  EXPECT_LE(distance(a.dq.values(), b.dq.values()), tolerance);
  EXPECT_LE(distance(a.dk.values(), b.dk.values()), tolerance);
  EXPECT_LE(distance(a.dv.values(), b.dv.values()), tolerance);
}

class AttentionParts : public testing::TestWithParam<Whole> {
 protected:
  /// Runs of different lengths, one of them a row: some are longer than the one before, some shorter.
  static std::vector<ops::PositionRun> runs(const Whole& w) {
    const std::int64_t third = w.rows / 3;
    return {{0, third}, {third, 1}, {third + 1, third - 2}, {2 * third - 1, w.rows - 2 * third + 1}};
  }
};

TEST_P(AttentionParts, OfTheKeysMakeWhatTheReferenceMakesAtOnce) {
  const Whole& w = GetParam();
  const Inputs in(w);
  const auto reference = ops::make_reference_ops();
  const Outputs expected = at_once(reference->attention(), w, in);
  const double tolerance = w.type == DType::bf16 ? 1e-2 : 1e-5;
  expect_near(by_parts(reference->attention(), w, in, runs(w)), expected, tolerance);
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    expect_near(by_parts(machine->ops->attention(), w, in, runs(w)), expected, tolerance);
  }
}

TEST_P(AttentionParts, HaveTheSameBitsOnEveryTeamAndIsa) {
  const Whole& w = GetParam();
  const Inputs in(w);
  const Outputs expected = by_parts(machines().front()->ops->attention(), w, in, runs(w));
  for (const auto& machine : machines()) {
    if (machine->isa == ops::Isa::baseline) continue;  // it has no fused multiply-add
    SCOPED_TRACE(machine->name);
    expect_near(by_parts(machine->ops->attention(), w, in, runs(w)), expected, 0);
  }
}

/// A single part goes over all keys, and sums begin with nothing.
TEST_P(AttentionParts, OnePartHasTheBitsOfTheWhole) {
  const Whole& w = GetParam();
  const Inputs in(w);
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    expect_near(by_parts(machine->ops->attention(), w, in, {{0, w.rows}}), at_once(machine->ops->attention(), w, in), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionParts,
                         testing::Values(Whole{2, 9, 3, 3, 10, DType::f32}, Whole{2, 130, 4, 2, 20, DType::f32},
                                         Whole{1, 300, 2, 1, 16, DType::f32}, Whole{1, 400, 2, 2, 1, DType::f32, 0},
                                         Whole{2, 150, 4, 2, 20, DType::bf16}),
                         testing::PrintToStringParamName());

TEST(AttentionPartsRules, AreChecked) {
  const auto ops = ops::make_reference_ops();
  ops::Attention& attention = ops->attention();
  const HostTensor x({5, 6}), lse({10});
  const HostTensor rounded = x.as(DType::bf16);
  const ops::AttentionShape good{.samples = 1, .queries = 5, .keys = 5, .key_rows = 5, .heads = 2, .kv_heads = 2, .head_size = 3};
  const auto changed = [&](std::int64_t first_key, std::int64_t later) {
    ops::AttentionShape shape = good;
    shape.first_key = first_key, shape.later = later;
    return shape;
  };
  EXPECT_NO_THROW(attention.forward({x, lse, x, x, x, changed(3, 2), {.p = 0.5F, .index_stride = 8}}));
  EXPECT_THROW(attention.forward({x, lse, x, x, x, changed(3, 2), {.p = 0.5F, .index_stride = 7}}), BrokenRule);
  EXPECT_THROW(attention.forward({x, lse, x, x, x, changed(-1, 0)}), BrokenRule);
  EXPECT_THROW(attention.forward({x, lse, x, x, x, changed(0, -1)}), BrokenRule);
  EXPECT_THROW(attention.forward({x, {}, x, x, x, good, {}, true}), BrokenRule) << "there is no lse to go on from";
  EXPECT_THROW(attention.forward({rounded, lse, rounded, rounded, rounded, good, {}, true}), BrokenRule);
  EXPECT_THROW(attention.backward({rounded, x, x, lse, rounded, rounded, lse, rounded, rounded, rounded, good, {}, true}),
               BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
