// Attention of some of the queries, as a rank of context parallelism computes it when it has gathered all keys. The rank has o
// and dq of its queries to itself, and makes a part of the keys' gradients.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "ops/attention.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

struct Whole {
  std::int64_t samples, rows, heads, kv_heads, head_size;
  DType type;
  friend std::ostream& operator<<(std::ostream& out, const Whole& w) {
    return out << name_of(w.type) << "_B" << w.samples << "_T" << w.rows << "_H" << w.heads << "_K" << w.kv_heads << "_D"
               << w.head_size;
  }
};

struct Inputs {
  HostTensor q, k, v, d_o;
};

/// The results for the queries of some positions. dk and dv have all rows, with NaN where nothing was written.
struct Outputs {
  HostTensor o, dq, dk, dv;
};

/// Forward and backward of the queries of `run`, which read the keys up to its end.
Outputs learn(ops::Attention& attention, const Whole& w, const ops::PositionRun& run, const Inputs& in) {
  ops::DropoutSite site{.p = 0.3F, .first_sample = 3, .index_stride = w.rows + 1};
  ops::make_key(site.key, 7, 3, 1, ops::Site::attention_weights);
  const ops::AttentionShape shape{.samples = w.samples,
                                  .queries = run.count,
                                  .keys = run.end(),
                                  .key_rows = w.rows,
                                  .heads = w.heads,
                                  .kv_heads = w.kv_heads,
                                  .head_size = w.head_size};
  const HostTensor q = rows_of(in.q, w.rows, {run.first, run.count}), d_o = rows_of(in.d_o, w.rows, {run.first, run.count});
  const HostTensor empty = HostTensor::filled(in.k.tensor().shape, NAN).as(w.type);
  Outputs out{HostTensor(q.tensor().shape, w.type), HostTensor(q.tensor().shape, w.type), empty, empty};
  const HostTensor lse({w.samples * w.heads, run.count});
  const HostTensor delta({q.tensor().rows(), ops::delta_columns(w.heads, w.head_size, w.type)});
  attention.forward({out.o, lse, q, in.k, in.v, shape, site});
  attention.backward({out.dq, out.dk, out.dv, delta, d_o, out.o, lse, q, in.k, in.v, shape, site});
  return out;
}

class AttentionQueries : public testing::TestWithParam<Whole> {
 protected:
  static Inputs inputs(const Whole& w) {
    const auto random = [&](std::int64_t heads, std::uint32_t seed) {
      return HostTensor::random({w.samples * w.rows, heads * w.head_size}, seed, 2).as(w.type);
    };
    return {random(w.heads, 1), random(w.kv_heads, 2), random(w.kv_heads, 3), random(w.heads, 4)};
  }
  /// Three runs: one ends in the middle of a block of keys, one is a row.
  static std::vector<ops::PositionRun> runs(const Whole& w) {
    const std::int64_t middle = w.rows / 2;
    return {{0, middle}, {middle, 1}, {middle + 1, w.rows - middle - 1}};
  }
};

TEST_P(AttentionQueries, GiveTheBitsOfTheWholeAndAddUpToItsKeys) {
  const Whole& w = GetParam();
  const Inputs in = inputs(w);
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    const Outputs whole = learn(machine->ops->attention(), w, {0, w.rows}, in);
    std::vector<float> dk(whole.dk.values().size()), dv = dk;
    for (const ops::PositionRun& run : runs(w)) {
      const Outputs some = learn(machine->ops->attention(), w, run, in);
      const ops::Positions positions(run.first, run.count);
      EXPECT_EQ(different_bits(some.o.values(), rows_of(whole.o, w.rows, positions).values()), 0U);
      EXPECT_EQ(different_bits(some.dq.values(), rows_of(whole.dq, w.rows, positions).values()), 0U);
      const auto width = static_cast<std::size_t>(w.kv_heads * w.head_size);
      const std::vector<float> some_dk = some.dk.values(), some_dv = some.dv.values();
      for (std::size_t i = 0; i < dk.size(); ++i) {
        const bool seen = static_cast<std::int64_t>(i / width) % w.rows < run.end();
        EXPECT_EQ(std::isnan(some_dk[i]), !seen);
        EXPECT_EQ(std::isnan(some_dv[i]), !seen);
        if (seen) dk[i] += some_dk[i];
        if (seen) dv[i] += some_dv[i];
      }
    }
    const double tolerance = w.type == DType::bf16 ? 1e-2 : 4e-6;
    EXPECT_LE(distance(dk, whole.dk.values()), tolerance);
    EXPECT_LE(distance(dv, whole.dv.values()), tolerance);
  }
}

TEST_P(AttentionQueries, EqualReference) {
  const Whole& w = GetParam();
  const Inputs in = inputs(w);
  const auto reference = ops::make_reference_ops();
  for (const ops::PositionRun& run : runs(w)) {
    const Outputs expected = learn(reference->attention(), w, run, in);
    const Outputs some = learn(machines().front()->ops->attention(), w, run, in);
    for (const auto& [a, b] : {std::pair{&some.o, &expected.o}, std::pair{&some.dq, &expected.dq},
                               std::pair{&some.dk, &expected.dk}, std::pair{&some.dv, &expected.dv}}) {
      std::vector<float> mine = a->values(), theirs = b->values();
      for (std::size_t i = 0; i < mine.size(); ++i) {
        ASSERT_EQ(std::isnan(mine[i]), std::isnan(theirs[i]));
        if (std::isnan(mine[i])) mine[i] = theirs[i] = 0;  // not written
      }
      EXPECT_LE(distance(mine, theirs, b->type()), w.type == DType::bf16 ? 2e-2 : 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionQueries,
                         testing::Values(Whole{2, 7, 3, 3, 10, DType::f32}, Whole{2, 130, 4, 2, 20, DType::f32},
                                         Whole{1, 259, 2, 1, 16, DType::f32}, Whole{2, 150, 4, 2, 20, DType::bf16}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep::test
