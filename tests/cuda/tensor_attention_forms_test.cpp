// The forms of attention on tensor cores: keys in pages, runs of keys, parts of the heads.

#include <utility>

#include "cuda/tensor_attention.h"

namespace lockstep::test::attention {
namespace {

constexpr std::int64_t keys_of_a_text = 320, pages_of_a_text = keys_of_a_text / ops::page_keys;

/// Texts' keys in pages that are dealt out from behind, and each alone.
void expect_cached_equal(std::int64_t head_size, std::int64_t window) {
  constexpr std::int64_t heads = 4, kv_heads = 2;
  const std::pair<std::int64_t, std::int64_t> texts[] = {{10, 1}, {0, 300}, {64, 64}, {5, 2}, {255, 1}};  // before, own
  constexpr std::int64_t count = std::size(texts), pool = count * pages_of_a_text;
  const HostTensor pool_k = HostTensor::filled({pool * ops::page_keys, kv_heads * head_size}, NAN).as(DType::bf16),
                   pool_v = pool_k;
  const AttentionShape heads_alone{.heads = heads, .kv_heads = kv_heads, .head_size = head_size};
  std::vector<std::int32_t> pages, starts;
  for (std::int64_t i = 0; i < pool; ++i)
    pages.push_back(static_cast<std::int32_t>(pool - 1 - i % pages_of_a_text * count - i / pages_of_a_text));
  for (std::int64_t i = 0; window > 0 && i < keys_of_a_text; ++i)
    starts.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(i - window + 1, 0)));
  const Tensor starts_tensor = starts.empty() ? Tensor{} : view(std::span(starts), Shape{1, keys_of_a_text});
  std::vector<ops::CachedText> cached;
  std::vector<HostTensor> alone;
  const HostTensor q = HostTensor::random({368, heads * head_size}, 5, 2).as(DType::bf16), o(q.tensor().shape, DType::bf16);
  std::int64_t first = 0;
  for (std::int64_t t = 0; t < count; ++t) {
    const auto [before, own] = texts[t];
    const auto seed = static_cast<std::uint32_t>(10 * t);
    const HostTensor k = HostTensor::random({before + own, kv_heads * head_size}, seed, 2).as(DType::bf16);
    const HostTensor v = HostTensor::random({before + own, kv_heads * head_size}, seed + 1, 2).as(DType::bf16);
    for (std::int64_t key = 0; key < before + own; ++key) {
      const std::int64_t row =
          pages[static_cast<std::size_t>(t * pages_of_a_text + key / ops::page_keys)] * ops::page_keys + key % ops::page_keys;
      std::memcpy(pool_k.tensor().slice_rows(row, 1).data, k.tensor().slice_rows(key, 1).data,
                  k.tensor().slice_rows(key, 1).bytes());
      std::memcpy(pool_v.tensor().slice_rows(row, 1).data, v.tensor().slice_rows(key, 1).data,
                  v.tensor().slice_rows(key, 1).bytes());
    }
    AttentionShape shape = heads_alone;
    shape.samples = 1, shape.queries = own, shape.keys = shape.key_rows = before + own;
    const HostTensor& result = alone.emplace_back(HostTensor({own, heads * head_size}, DType::bf16));
    on_tensor_cores().forward({result, {}, q.tensor().slice_rows(first, own), k, v, shape, {}, false, starts_tensor});
    cached.push_back({.first = first, .rows = own, .position = before, .text = t});
    first += own;
  }
  on_tensor_cores().forward(ops::CachedAttention{.o = o,
                                                 .q = q,
                                                 .k = pool_k,
                                                 .v = pool_v,
                                                 .pages = view(std::span(pages), Shape{count, pages_of_a_text}),
                                                 .texts = cached,
                                                 .shape = heads_alone,
                                                 .starts = starts_tensor});
  for (std::size_t t = 0; t < alone.size(); ++t)
    expect_same(alone[t], o.tensor().slice_rows(cached[t].first, cached[t].rows), "o");
}

TEST(TensorAttentionForms, KeysInPagesHaveTheBitsOfEachTextAlone) {
  expect_cached_equal(16, 0);
  expect_cached_equal(128, 70);
}

struct Sums {
  HostTensor o, dq, dk, dv;
};

/// The queries of each run go over the runs of keys that they see, their own first.
Sums by_runs(ops::Attention& attention, const Case& c, const Inputs& in, const std::vector<ops::PositionRun>& runs) {
  Sums out{HostTensor({c.rows, in.q_width}), HostTensor({c.rows, in.q_width}), HostTensor({c.rows, in.kv_width}),
           HostTensor({c.rows, in.kv_width})};
  std::vector<std::int32_t> starts = c.starts();
  const Tensor begins = starts.empty() ? Tensor{} : view(std::span(starts), Shape{1, c.rows});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const HostTensor lse({c.heads, runs[i].count}), delta({runs[i].count, c.heads});
    const auto rows = [](const Tensor& of, const ops::PositionRun& run) { return of.slice_rows(run.first, run.count); };
    const auto shape_with = [&](const ops::PositionRun& keys) {
      AttentionShape shape = c.shape();
      shape.queries = runs[i].count, shape.keys = shape.key_rows = keys.count;
      shape.first_key = keys.first, shape.later = runs[i].end() - keys.end();
      return shape;
    };
    const Tensor q = rows(in.q(), runs[i]), o = rows(out.o, runs[i]);
    for (std::size_t j = i + 1; j-- > 0;)
      attention.forward(
          {o, lse, q, rows(in.k(), runs[j]), rows(in.v(), runs[j]), shape_with(runs[j]), c.dropout(), j < i, begins});
    const HostTensor stored = test::rows_of(out.o, c.rows, {runs[i].first, runs[i].count}).as(DType::bf16);
    for (std::size_t j = i + 1; j-- > 0;) {
      attention.backward({.dq = rows(out.dq, runs[i]),
                          .dk = rows(out.dk, runs[j]),
                          .dv = rows(out.dv, runs[j]),
                          .delta = delta,
                          .d_o = rows(in.d_o, runs[i]),
                          .o = stored,
                          .lse = lse,
                          .q = q,
                          .k = rows(in.k(), runs[j]),
                          .v = rows(in.v(), runs[j]),
                          .shape = shape_with(runs[j]),
                          .dropout = c.dropout(),
                          .further = true,
                          .starts = begins});
    }
  }
  return out;
}

TEST(TensorAttentionForms, RunsOfKeysMakeWhatTheReferenceMakesAtOnce) {
  for (const Case& c : {Case{1, 200, 4, 2, 20, 0.3F}, Case{1, 220, 2, 1, 128, 0, 0, 90}, Case{1, 150, 2, 2, 64, 0, 3}}) {
    SCOPED_TRACE(c);
    const Inputs in(c);
    const std::int64_t third = c.rows / 3;
    const std::vector<ops::PositionRun> runs{
        {0, third}, {third, 1}, {third + 1, third - 2}, {2 * third - 1, c.rows - 2 * third + 1}};
    const Sums got = by_runs(on_tensor_cores(), c, in, runs);
    const Sums expected = by_runs(ops::make_reference_ops()->attention(), c, in, {{0, c.rows}});
    EXPECT_LE(distance(got.o.values(), expected.o.values()), o_tolerance);
    EXPECT_LE(distance(got.dq.values(), expected.dq.values()), gradient_tolerance);
    EXPECT_LE(distance(got.dk.values(), expected.dk.values()), gradient_tolerance);
    EXPECT_LE(distance(got.dv.values(), expected.dv.values()), gradient_tolerance);
  }
}

// A run whose keys a query does not see leaves the query's result alone, whatever its neighbours see.
TEST(TensorAttentionForms, ARunThatIsNotSeenChangesNothing) {
  const Case c{1, 128, 2, 1, 64, 0, 0, 80};
  const Inputs in(c);
  std::vector<std::int32_t> starts = c.starts();
  AttentionShape shape = c.shape();
  shape.queries = 64, shape.keys = shape.key_rows = 64, shape.first_key = 0, shape.later = 64;
  const HostTensor o = HostTensor::random({64, in.q_width}, 9), lse = HostTensor::random({2, 64}, 10);
  const HostTensor before = o, lse_before = lse;
  on_tensor_cores().forward({o,
                             lse,
                             in.q().slice_rows(64, 64),
                             in.k().slice_rows(0, 64),
                             in.v().slice_rows(0, 64),
                             shape,
                             {},
                             true,
                             view(std::span(starts), Shape{1, c.rows})});
  const Tensor after = o;
  for (std::int64_t i = 0; i < 64; ++i) {
    const Tensor row = after.slice_rows(i, 1);
    EXPECT_EQ(std::memcmp(row.data, before.tensor().slice_rows(i, 1).data, row.bytes()) == 0, i >= 16) << i;
    EXPECT_EQ(lse[static_cast<std::size_t>(i)] == lse_before[static_cast<std::size_t>(i)], i >= 16) << i;
  }
}

// Each part of the heads has the sums that it has by itself.
TEST(TensorAttentionForms, PartsOfHeadsAreSummedByThemselves) {
  const Case c{2, 100, 6, 2, 32};
  const Inputs in(c);
  const std::vector<ops::HeadPart> parts{{0, 0, 2, 0}, {0, 2, 1, 1}, {1, 3, 1, 4}, {1, 4, 2, 5}};
  std::vector<std::int32_t> starts;
  Rows rows = rows_of(c, in, starts);
  rows.results = DType::f32;
  const Results whole = run(on_tensor_cores(), rows);
  HostTensor dk({2 * c.rows, in.kv_width}), dv = dk, dq({2 * c.rows, in.q_width});
  const HostTensor sums({2, 2 * c.rows, 4 * c.head_size}), delta({2 * c.rows, c.heads});
  on_tensor_cores().backward({.dq = dq,
                              .dk = dk,
                              .dv = dv,
                              .delta = delta,
                              .d_o = in.d_o,
                              .o = whole[0].as(DType::bf16),
                              .lse = whole[1],
                              .q = rows.q,
                              .k = rows.k,
                              .v = rows.v,
                              .shape = rows.shape,
                              .parts = parts,
                              .part_sums = sums});
  EXPECT_EQ(different_bits(dq.values(), whole[2].values()), 0U);
  EXPECT_LE(distance(dk.values(), whole[3].values()), 1e-5);
  EXPECT_LE(distance(dv.values(), whole[4].values()), 1e-5);
  const Tensor all_sums = sums.tensor().reshape({4 * c.rows, 4 * c.head_size});
  for (std::size_t p = 0; p < parts.size(); ++p) {
    Rows some = rows;
    for (Tensor* t : {&some.q, &some.d_o}) *t = t->slice_columns(parts[p].first * c.head_size, parts[p].count * c.head_size);
    for (Tensor* t : {&some.k, &some.v}) *t = t->slice_columns(parts[p].kv_head * c.head_size, c.head_size);
    some.shape.heads = parts[p].count;
    some.shape.kv_heads = 1;
    const Results got = run(on_tensor_cores(), some);
    const Tensor columns = all_sums.slice_columns(static_cast<std::int64_t>(p) * c.head_size, c.head_size);
    expect_same(got[3], columns.slice_rows(0, 2 * c.rows), "dk");
    expect_same(got[4], columns.slice_rows(2 * c.rows, 2 * c.rows), "dv");
  }
}

}  // namespace
}  // namespace lockstep::test::attention
