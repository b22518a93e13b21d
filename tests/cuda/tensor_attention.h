#pragma once

// What tests of attention on tensor cores share: the emulated GPU, cases and comparisons.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <ostream>
#include <vector>

#include "support/ops.h"
#include "support/staged_families.h"

namespace lockstep::test::attention {

using ops::AttentionShape;

struct TensorCores {
  std::unique_ptr<Runtime> runtime = open_runtime({DeviceKind::cuda, 0});
  std::unique_ptr<Stream> stream = runtime->make_stream();
  support::StagedOps ops{*runtime, ops::make_ops(*runtime, *stream)};
};

inline ops::Attention& on_tensor_cores() {
  static TensorCores all;
  return all.ops.attention();
}

/// Tolerances, relative to the largest value. Weights and gradients of scores are rounded to bf16, by 2^-9 each, and sums of them
/// may cancel.
inline constexpr double o_tolerance = 0.01, gradient_tolerance = 0.02, lse_tolerance = 1e-5;

struct Case {
  std::int64_t samples, rows, heads, kv_heads, head_size;
  float dropped = 0;
  double softcap = 0;
  std::int64_t documents = 0;  ///< length of each document; 0: a sample is one
  DType results = DType::bf16;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << name_of(c.results) << "_B" << c.samples << "_T" << c.rows << "_H" << c.heads << "_K" << c.kv_heads << "_D"
               << c.head_size << (c.dropped > 0 ? "_dropped" : "") << (c.softcap > 0 ? "_capped" : "")
               << (c.documents > 0 ? "_documents" : "");
  }
  AttentionShape shape() const {
    return {.samples = samples,
            .queries = rows,
            .keys = rows,
            .key_rows = rows,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_size = head_size,
            .softcap = softcap};
  }
  ops::DropoutSite dropout() const {
    ops::DropoutSite site{.p = dropped, .first_sample = 3, .first_index = 2, .index_stride = rows + 1};
    ops::make_key(site.key, 7, 3, 1, ops::Site::attention_weights);
    return site;
  }
  std::vector<std::int32_t> starts() const {
    std::vector<std::int32_t> all;
    for (std::int64_t i = 0; documents > 0 && i < samples * rows; ++i) {
      const std::int64_t length = documents + i / rows * 3;
      all.push_back(static_cast<std::int32_t>(i % rows / length * length));
    }
    return all;
  }
};

/// q, k and v beside each other, as one product makes them, and the gradient of o.
struct Inputs {
  HostTensor qkv, d_o;
  std::int64_t q_width, kv_width;
  explicit Inputs(const Case& c) : q_width(c.heads * c.head_size), kv_width(c.kv_heads * c.head_size) {
    qkv = HostTensor::random({c.samples * c.rows, q_width + 2 * kv_width}, 1, 2).as(DType::bf16);
    d_o = HostTensor::random({c.samples * c.rows, q_width}, 2).as(DType::bf16);
  }
  Tensor q() const { return qkv.tensor().slice_columns(0, q_width); }
  Tensor k() const { return qkv.tensor().slice_columns(q_width, kv_width); }
  Tensor v() const { return qkv.tensor().slice_columns(q_width + kv_width, kv_width); }
};

/// Some queries with their keys.
struct Rows {
  Tensor q, k, v, d_o;
  AttentionShape shape;
  ops::DropoutSite dropout;
  Tensor starts;
  DType results;
};

inline Rows rows_of(const Case& c, const Inputs& in, std::vector<std::int32_t>& starts) {
  starts = c.starts();
  return {in.q(),
          in.k(),
          in.v(),
          in.d_o,
          c.shape(),
          c.dropout(),
          starts.empty() ? Tensor{} : view(std::span(starts), Shape{c.samples, c.rows}),
          c.results};
}

/// o, lse, dq, dk and dv.
inline Results run(ops::Attention& attention, const Rows& r) {
  const AttentionShape& s = r.shape;
  HostTensor o({r.q.rows(), r.q.columns()}, r.results), lse({s.samples * s.heads, s.queries}), dq = o;
  HostTensor dk({r.k.rows(), r.k.columns()}, r.results), dv = dk;
  const HostTensor delta({r.q.rows(), ops::delta_columns(s.heads, s.head_size, r.results)});
  attention.forward({.o = o, .lse = lse, .q = r.q, .k = r.k, .v = r.v, .shape = s, .dropout = r.dropout, .starts = r.starts});
  const HostTensor stored = o.as(DType::bf16);
  attention.backward({.dq = dq,
                      .dk = dk,
                      .dv = dv,
                      .delta = delta,
                      .d_o = r.d_o,
                      .o = stored,
                      .lse = lse,
                      .q = r.q,
                      .k = r.k,
                      .v = r.v,
                      .shape = s,
                      .dropout = r.dropout,
                      .starts = r.starts});
  return {o, lse, dq, dk, dv};
}

inline void expect_near(const Results& got, const Results& expected) {
  const double tolerances[] = {o_tolerance, lse_tolerance, gradient_tolerance, gradient_tolerance, gradient_tolerance};
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(distance(got[i].values(), expected[i].values(), expected[i].type()), tolerances[i]) << "result " << i;
}
inline void expect_same(const HostTensor& a, const Tensor& b, const char* what) {
  ASSERT_EQ(a.tensor().rows(), b.rows());
  std::size_t different = 0;
  const std::size_t bytes = static_cast<std::size_t>(b.columns()) * size_of(b.dtype);
  for (std::int64_t i = 0; i < b.rows(); ++i)
    different += std::memcmp(a.tensor().slice_rows(i, 1).data, b.slice_rows(i, 1).data, bytes) != 0 ? 1 : 0;
  EXPECT_EQ(different, 0U) << "rows of " << what;
}
inline void expect_same(const Results& a, const Results& b) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(different_bits(a[i].values(), b[i].values()), 0U) << "result " << i;
}

}  // namespace lockstep::test::attention
