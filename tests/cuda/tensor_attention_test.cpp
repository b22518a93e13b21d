// Attention of bf16 on tensor cores, emulated. Results are near the reference. A row's result is a function of its head, its
// query or key, and the sequence of keys alone.

#include "cuda/tensor_attention.h"

namespace lockstep::test::attention {
namespace {

class TensorAttention : public testing::TestWithParam<Case> {};

TEST_P(TensorAttention, IsNearTheReference) {
  const Inputs in(GetParam());
  std::vector<std::int32_t> starts;
  const Rows rows = rows_of(GetParam(), in, starts);
  expect_near(run(on_tensor_cores(), rows), run(ops::make_reference_ops()->attention(), rows));
}

// Rows that begin where no copy of 16 bytes can have the bits of those that do.
TEST_P(TensorAttention, RowsOfAnyStrideHaveEqualBits) {
  const Case& c = GetParam();
  const Inputs in(c);
  std::vector<std::int32_t> starts;
  Rows rows = rows_of(c, in, starts);
  const Results expected = run(on_tensor_cores(), rows);
  std::vector<HostTensor> moved;
  for (Tensor* t : {&rows.q, &rows.k, &rows.v, &rows.d_o}) {
    const HostTensor& room = moved.emplace_back(HostTensor::filled({t->rows(), t->columns() + 3}, NAN).as(DType::bf16));
    const Tensor to = room.tensor().slice_columns(1, t->columns());
    for (std::int64_t i = 0; i < t->rows(); ++i)
      std::memcpy(to.slice_rows(i, 1).data, t->slice_rows(i, 1).data, static_cast<std::size_t>(t->columns()) * 2);
    *t = to;
  }
  expect_same(run(on_tensor_cores(), rows), expected);
}

TEST_P(TensorAttention, ASampleAloneHasEqualBits) {
  const Case& c = GetParam();
  const Inputs in(c);
  std::vector<std::int32_t> starts;
  const Rows all = rows_of(c, in, starts);
  const Results expected = run(on_tensor_cores(), all);
  for (std::int64_t i = 0; i < c.samples; ++i) {
    Rows one = all;
    for (Tensor* t : {&one.q, &one.k, &one.v, &one.d_o}) *t = t->slice_rows(i * c.rows, c.rows);
    if (one.starts) one.starts = one.starts.slice_rows(i, 1);
    one.shape.samples = 1;
    one.dropout.first_sample += i;
    const Results got = run(on_tensor_cores(), one);
    for (const std::size_t r : {0U, 2U, 3U, 4U})
      expect_same(got[r], expected[r].tensor().slice_rows(i * c.rows, c.rows), "a result");
    expect_same(got[1], expected[1].tensor().slice_rows(i * c.heads, c.heads), "lse");
  }
}

// Queries from the middle of sample 0 on, whose keys have room behind them.
TEST_P(TensorAttention, SomeQueriesHaveTheBitsOfAll) {
  const Case& c = GetParam();
  const Inputs in(c);
  std::vector<std::int32_t> starts;
  const Rows all = rows_of(c, in, starts);
  const Results expected = run(on_tensor_cores(), all);
  for (const std::int64_t first : {std::int64_t{0}, c.rows / 3, c.rows - 1}) {
    for (std::int64_t count : {std::int64_t{1}, std::int64_t{7}, c.rows}) {
      count = std::min(count, c.rows - first);
      Rows some = all;
      for (Tensor* t : {&some.q, &some.d_o}) *t = t->slice_rows(first, count);
      for (Tensor* t : {&some.k, &some.v}) *t = t->slice_rows(0, c.rows);
      if (some.starts) some.starts = some.starts.slice_rows(0, 1);
      some.shape.samples = 1;
      some.shape.queries = count;
      some.shape.keys = first + count;
      const Results got = run(on_tensor_cores(), some);
      expect_same(got[0], expected[0].tensor().slice_rows(first, count), "o");
      expect_same(got[2], expected[2].tensor().slice_rows(first, count), "dq");
    }
  }
}

// Each key/value head with its heads.
TEST_P(TensorAttention, HeadsAloneHaveEqualBits) {
  const Case& c = GetParam();
  const Inputs in(c);
  std::vector<std::int32_t> starts;
  const Rows all = rows_of(c, in, starts);
  const Results expected = run(on_tensor_cores(), all);
  const std::int64_t group = c.heads / c.kv_heads, size = c.head_size;
  for (std::int64_t i = 0; i < c.kv_heads; ++i) {
    Rows one = all;
    for (Tensor* t : {&one.q, &one.d_o}) *t = t->slice_columns(i * group * size, group * size);
    for (Tensor* t : {&one.k, &one.v}) *t = t->slice_columns(i * size, size);
    one.shape.heads = group;
    one.shape.kv_heads = 1;
    one.dropout.first_index += i * group * one.dropout.index_stride;
    const Results got = run(on_tensor_cores(), one);
    for (const std::size_t r : {0U, 2U})
      expect_same(got[r], expected[r].tensor().slice_columns(i * group * size, group * size), "q");
    for (const std::size_t r : {3U, 4U}) expect_same(got[r], expected[r].tensor().slice_columns(i * size, size), "k");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, TensorAttention,
                         testing::Values(Case{1, 1, 1, 1, 1}, Case{2, 77, 4, 2, 24}, Case{3, 70, 2, 1, 64, 0.3F},
                                         Case{1, 150, 1, 1, 128}, Case{2, 140, 2, 1, 20, 0.2F, 5, 41, DType::f32},
                                         Case{2, 67, 2, 1, 72, 0, 0, 19}, Case{1, 260, 1, 1, 64, 0, 0, 100},
                                         Case{1, 70, 2, 1, 128, 0.1F, 0.5, 0, DType::f32}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep::test::attention
