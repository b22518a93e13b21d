// A part of the heads, as a rank of tensor parallelism has it. It gives the same bits as in a call for all heads, also where
// ranks share key/value heads.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <ostream>

#include "ops/attention.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::AttentionShape;
using ops::DropoutSite;

struct Whole {
  std::int64_t samples, rows, heads, kv_heads, head_size, parts;
  DType type;
  friend std::ostream& operator<<(std::ostream& out, const Whole& w) {
    return out << name_of(w.type) << "_B" << w.samples << "_T" << w.rows << "_H" << w.heads << "_K" << w.kv_heads << "_D"
               << w.head_size << "_of" << w.parts;
  }
  std::int64_t group() const { return heads / kv_heads; }
};

/// Heads [first, last), and the key/value heads that they read.
struct Part {
  std::int64_t first, last, first_kv, last_kv;
};

std::vector<Part> parts_of(const Whole& w) {
  std::vector<Part> parts;
  for (std::int64_t i = 0; i < w.parts; ++i) {
    const std::int64_t first = i * w.heads / w.parts, last = (i + 1) * w.heads / w.parts;
    parts.push_back({first, last, first / w.group(), (last - 1) / w.group() + 1});
  }
  return parts;
}

AttentionShape shape_of(const Whole& w, const Part& part) {
  return {.samples = w.samples,
          .queries = w.rows,
          .keys = w.rows,
          .key_rows = w.rows,
          .heads = part.last - part.first,
          .kv_heads = part.last_kv - part.first_kv,
          .head_size = w.head_size,
          .group = w.group(),
          .skipped = part.first % w.group()};
}

struct Inputs {
  HostTensor q, k, v, d_o;
};

struct Outputs {
  HostTensor o, lse, dq, dk, dv;
};

/// Forward and backward of these heads.
Outputs run(ops::Attention& attention, const Whole& w, const Part& part, const Inputs& in, DropoutSite site) {
  const auto heads = [&](const HostTensor& x) {
    return x.tensor().slice_columns(part.first * w.head_size, (part.last - part.first) * w.head_size);
  };
  const auto kv_heads = [&](const HostTensor& x) {
    return x.tensor().slice_columns(part.first_kv * w.head_size, (part.last_kv - part.first_kv) * w.head_size);
  };
  const Tensor q = heads(in.q), k = kv_heads(in.k), v = kv_heads(in.v);
  const AttentionShape shape = shape_of(w, part);
  site.first_index = part.first * site.index_stride;
  Outputs out{HostTensor({q.rows(), q.columns()}, w.type), HostTensor({w.samples * shape.heads, w.rows}),
              HostTensor({q.rows(), q.columns()}, w.type), HostTensor({k.rows(), k.columns()}, w.type),
              HostTensor({k.rows(), k.columns()}, w.type)};
  const HostTensor delta({q.rows(), ops::delta_columns(shape.heads, w.head_size, w.type)});
  attention.forward({out.o, out.lse, q, k, v, shape, site});
  attention.backward({out.dq, out.dk, out.dv, delta, heads(in.d_o), out.o, out.lse, q, k, v, shape, site});
  return out;
}

/// Columns [first, last) of heads.
std::vector<float> heads_of(const HostTensor& x, std::int64_t first, std::int64_t last, std::int64_t head_size) {
  std::vector<float> values;
  const std::vector<float>& all = x.values();
  const std::int64_t width = x.tensor().columns();
  for (std::int64_t row = 0; row < x.tensor().rows(); ++row) {
    values.insert(values.end(), all.begin() + row * width + first * head_size, all.begin() + row * width + last * head_size);
  }
  return values;
}

/// lse has a row for each head of each sample.
std::vector<float> lse_of(const HostTensor& lse, const Whole& w, const Part& part) {
  std::vector<float> values;
  const std::vector<float>& all = lse.values();
  for (std::int64_t sample = 0; sample < w.samples; ++sample) {
    const auto row = all.begin() + sample * w.heads * w.rows;
    values.insert(values.end(), row + part.first * w.rows, row + part.last * w.rows);
  }
  return values;
}

class AttentionHeads : public testing::TestWithParam<Whole> {
 protected:
  static Inputs inputs(const Whole& w) {
    const std::int64_t rows = w.samples * w.rows;
    const auto random = [&](std::int64_t heads, std::uint32_t seed) {
      return HostTensor::random({rows, heads * w.head_size}, seed, 2).as(w.type);
    };
    return {random(w.heads, 1), random(w.kv_heads, 2), random(w.kv_heads, 3), random(w.heads, 4)};
  }
  static DropoutSite site(const Whole& w, float p) {
    DropoutSite site{.p = p, .first_sample = 3, .index_stride = w.rows + 1};
    ops::make_key(site.key, 7, 3, 1, ops::Site::attention_weights);
    return site;
  }
};

TEST_P(AttentionHeads, PartsHaveTheBitsOfTheWhole) {
  const Whole& w = GetParam();
  const Inputs in = inputs(w);
  for (const float p : {0.0F, 0.3F}) {
    for (const auto& machine : machines()) {
      SCOPED_TRACE(machine->name);
      ops::Attention& attention = machine->ops->attention();
      const Outputs whole = run(attention, w, {0, w.heads, 0, w.kv_heads}, in, site(w, p));
      for (const Part& part : parts_of(w)) {
        const Outputs some = run(attention, w, part, in, site(w, p));
        EXPECT_EQ(different_bits(some.o.values(), heads_of(whole.o, part.first, part.last, w.head_size)), 0U);
        EXPECT_EQ(different_bits(some.dq.values(), heads_of(whole.dq, part.first, part.last, w.head_size)), 0U);
        EXPECT_EQ(different_bits(some.lse.values(), lse_of(whole.lse, w, part)), 0U);
        for (std::int64_t kv = part.first_kv; kv < part.last_kv; ++kv) {
          const std::int64_t here = kv - part.first_kv;
          if (kv * w.group() < part.first || (kv + 1) * w.group() > part.last) continue;  // shared with another part
          EXPECT_EQ(different_bits(heads_of(some.dk, here, here + 1, w.head_size), heads_of(whole.dk, kv, kv + 1, w.head_size)),
                    0U);
          EXPECT_EQ(different_bits(heads_of(some.dv, here, here + 1, w.head_size), heads_of(whole.dv, kv, kv + 1, w.head_size)),
                    0U);
        }
      }
    }
  }
}

TEST_P(AttentionHeads, GradientsOfSharedHeadsAddUp) {
  const Whole& w = GetParam();
  const Inputs in = inputs(w);
  ops::Attention& attention = machines().front()->ops->attention();
  const Outputs whole = run(attention, w, {0, w.heads, 0, w.kv_heads}, in, site(w, 0.3F));
  HostTensor dk({w.samples * w.rows, w.kv_heads * w.head_size}), dv = dk;
  const auto add = [&](HostTensor& sum, const HostTensor& some, const Part& part) {
    const std::int64_t width = some.tensor().columns(), all = sum.tensor().columns();
    for (std::int64_t row = 0; row < some.tensor().rows(); ++row) {
      for (std::int64_t j = 0; j < width; ++j) {
        sum[static_cast<std::size_t>(row * all + part.first_kv * w.head_size + j)] +=
            some[static_cast<std::size_t>(row * width + j)];
      }
    }
  };
  for (const Part& part : parts_of(w)) {
    const Outputs some = run(attention, w, part, in, site(w, 0.3F));
    add(dk, some.dk, part);
    add(dv, some.dv, part);
  }
  const double tolerance = w.type == DType::bf16 ? 1e-2 : 4e-6;
  EXPECT_LE(distance(dk.values(), whole.dk.values()), tolerance);
  EXPECT_LE(distance(dv.values(), whole.dv.values()), tolerance);
}

TEST_P(AttentionHeads, PartsEqualReference) {
  const Whole& w = GetParam();
  if (w.samples > 2) return;  // the others have every case
  const Inputs in = inputs(w);
  const auto reference = ops::make_reference_ops();
  for (const Part& part : parts_of(w)) {
    const Outputs expected = run(reference->attention(), w, part, in, site(w, 0.3F));
    const Outputs some = run(machines().front()->ops->attention(), w, part, in, site(w, 0.3F));
    for (const auto& [a, b] :
         {std::pair{&some.o, &expected.o}, std::pair{&some.lse, &expected.lse}, std::pair{&some.dq, &expected.dq},
          std::pair{&some.dk, &expected.dk}, std::pair{&some.dv, &expected.dv}}) {
      EXPECT_LE(distance(a->values(), b->values(), b->type()), w.type == DType::bf16 ? 2e-2 : 1e-5);
    }
  }
}

// Every head is a range of its own: 1, 2, 3 of the first key/value head's and 5, 6, 7 of the second one's.
TEST_P(AttentionHeads, RangesOfHeadsAreAddedAsATree) {
  const Whole w{2, 70, 6, 2, 8, 1, GetParam().type};
  const std::array<ops::HeadPart, 6> parts{{{0, 0, 1, 1}, {0, 1, 1, 2}, {0, 2, 1, 3}, {1, 3, 1, 5}, {1, 4, 1, 6}, {1, 5, 1, 7}}};
  const Inputs in = inputs(w);
  const Part all{0, w.heads, 0, w.kv_heads};
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    ops::Attention& attention = machine->ops->attention();
    const Outputs whole = run(attention, w, all, in, site(w, 0.3F));
    const Shape keys{w.samples * w.rows, w.kv_heads * w.head_size};
    const HostTensor dq({w.samples * w.rows, w.heads * w.head_size}, w.type), dk(keys), dv(keys);
    const HostTensor delta({dq.tensor().rows(), ops::delta_columns(w.heads, w.head_size, w.type)});
    const HostTensor sums({2 * w.samples * w.rows * w.heads * w.head_size});
    attention.backward({.dq = dq,
                        .dk = dk,
                        .dv = dv,
                        .delta = delta,
                        .d_o = in.d_o,
                        .o = whole.o,
                        .lse = whole.lse,
                        .q = in.q,
                        .k = in.k,
                        .v = in.v,
                        .shape = shape_of(w, all),
                        .dropout = site(w, 0.3F),
                        .parts = parts,
                        .part_sums = sums});
    EXPECT_EQ(different_bits(dq.values(), whole.dq.values()), 0U);
    EXPECT_LE(distance(dk.values(), whole.dk.values(), w.type), w.type == DType::bf16 ? 1e-2 : 1e-5);
    if (w.type != DType::f32) continue;  // heads alone leave rounded sums
    std::vector<Outputs> heads;
    for (std::int64_t h = 0; h < w.heads; ++h)
      heads.push_back(run(attention, w, {h, h + 1, h / w.group(), h / w.group() + 1}, in, site(w, 0.3F)));
    const auto tree = [&](const HostTensor Outputs::* of) {
      HostTensor added(keys);
      for (std::size_t i = 0; i < added.values().size(); ++i) {
        const std::size_t width = static_cast<std::size_t>(w.head_size), column = i % (2 * width), row = i / (2 * width);
        const auto part = [&](std::size_t head) { return (heads[column / width * 3 + head].*of)[row * width + column % width]; };
        added[i] = part(0) + (part(1) + part(2));
      }
      return added;
    };
    EXPECT_EQ(different_bits(dk.values(), tree(&Outputs::dk).values()), 0U);
    EXPECT_EQ(different_bits(dv.values(), tree(&Outputs::dv).values()), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuts, AttentionHeads,
                         testing::Values(Whole{2, 70, 12, 4, 20, 5, DType::f32}, Whole{2, 70, 12, 4, 20, 5, DType::bf16},
                                         Whole{1, 130, 6, 1, 16, 3, DType::f32}, Whole{1, 33, 4, 4, 8, 2, DType::f32},
                                         Whole{1, 65, 8, 2, 32, 8, DType::bf16}, Whole{30, 130, 5, 1, 8, 2, DType::f32},
                                         Whole{30, 130, 6, 3, 8, 4, DType::f32}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep::test
