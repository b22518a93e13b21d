// Attention of texts whose keys lie in pages: every row has the bits of a call for its text alone, wherever its pages are.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ops/attention.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::page_keys;

/// A text of which `rows` positions are read behind `before` others.
struct Text {
  std::int64_t before, rows;
};

struct Case {
  std::int64_t heads, kv_heads, head_size;
  DType type;
  std::vector<Text> texts;
  std::int64_t window = 0;  ///< keys that a query sees; 0: all
  double softcap = 0;
};

std::vector<Case> cases() {
  return {{4, 2, 20, DType::f32, {{0, 1}, {63, 1}, {64, 1}, {200, 1}}},
          {3, 3, 10, DType::f32, {{0, 70}, {130, 1}, {61, 5}}, 0, 5},
          {4, 1, 16, DType::bf16, {{10, 1}, {0, 300}, {64, 64}, {5, 2}}},
          {2, 2, 8, DType::f32, {{100, 1}, {3, 90}}, 17}};
}

constexpr std::int64_t longest = 320, pages_of_a_text = longest / page_keys;

/// The texts' own keys and values whole, and in pages that are dealt out from behind, turn by turn.
struct Inputs {
  std::vector<HostTensor> q, k, v;
  HostTensor all_q, pool_k, pool_v;
  std::vector<std::int32_t> pages, starts;
  std::vector<ops::CachedText> texts;

  explicit Inputs(const Case& c) {
    const std::int64_t count = std::ssize(c.texts), pool = count * pages_of_a_text + 1;
    std::int64_t rows = 0;
    for (std::int64_t t = 0; t < count; ++t) {
      const auto [before, own] = c.texts[static_cast<std::size_t>(t)];
      const auto seed = static_cast<std::uint32_t>(10 * t);
      q.push_back(HostTensor::random({own, c.heads * c.head_size}, seed, 2).as(c.type));
      k.push_back(HostTensor::random({before + own, c.kv_heads * c.head_size}, seed + 1, 2).as(c.type));
      v.push_back(HostTensor::random({before + own, c.kv_heads * c.head_size}, seed + 2, 2).as(c.type));
      texts.push_back({.first = rows, .rows = own, .position = before, .text = t});
      for (std::int64_t i = 0; i < pages_of_a_text; ++i) pages.push_back(static_cast<std::int32_t>(pool - 1 - i * count - t));
      rows += own;
    }
    all_q = HostTensor({rows, c.heads * c.head_size}, c.type);
    const HostTensor empty = HostTensor::filled({pool * page_keys, c.kv_heads * c.head_size}, NAN).as(c.type);
    pool_k = empty, pool_v = empty;
    for (std::size_t t = 0; t < q.size(); ++t) {
      copy_rows(all_q, texts[t].first, q[t], 0, texts[t].rows);
      for (std::int64_t key = 0; key < k[t].tensor().rows(); ++key) {
        const std::int64_t page = pages[t * pages_of_a_text + static_cast<std::size_t>(key / page_keys)];
        copy_rows(pool_k, page * page_keys + key % page_keys, k[t], key, 1);
        copy_rows(pool_v, page * page_keys + key % page_keys, v[t], key, 1);
      }
    }
    for (std::int64_t i = 0; c.window > 0 && i < longest; ++i)
      starts.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(i - c.window + 1, 0)));
  }

  static void copy_rows(const HostTensor& to, std::int64_t at, const HostTensor& from, std::int64_t first, std::int64_t count) {
    const Tensor rows = from.tensor().slice_rows(first, count);
    std::memcpy(to.tensor().slice_rows(at, count).data, rows.data, rows.bytes());
  }
  Tensor starts_tensor() { return starts.empty() ? Tensor{} : view(std::span(starts), Shape{1, longest}); }
  Tensor page_table() { return view(std::span(pages), Shape{std::ssize(texts), pages_of_a_text}); }
};

ops::AttentionShape shape_of(const Case& c) {
  return {.heads = c.heads, .kv_heads = c.kv_heads, .head_size = c.head_size, .softcap = c.softcap};
}

HostTensor cached(ops::Attention& attention, const Case& c, Inputs& in) {
  HostTensor o(in.all_q.tensor().shape, c.type);
  attention.forward(ops::CachedAttention{.o = o,
                                         .q = in.all_q,
                                         .k = in.pool_k,
                                         .v = in.pool_v,
                                         .pages = in.page_table(),
                                         .texts = in.texts,
                                         .shape = shape_of(c),
                                         .starts = in.starts_tensor()});
  return o;
}

HostTensor each_alone(ops::Attention& attention, const Case& c, Inputs& in) {
  HostTensor all(in.all_q.tensor().shape, c.type);
  for (std::size_t t = 0; t < in.q.size(); ++t) {
    ops::AttentionShape shape = shape_of(c);
    shape.samples = 1, shape.queries = in.texts[t].rows, shape.keys = shape.key_rows = in.k[t].tensor().rows();
    HostTensor o(in.q[t].tensor().shape, c.type);
    attention.forward({o, {}, in.q[t], in.k[t], in.v[t], shape, {}, false, in.starts_tensor()});
    Inputs::copy_rows(all, in.texts[t].first, o, 0, in.texts[t].rows);
  }
  return all;
}

TEST(AttentionCached, HasTheBitsOfEachTextAloneOnEveryIsa) {
  const auto reference = ops::make_reference_ops();
  for (const Case& c : cases()) {
    Inputs in(c);
    const HostTensor expected = each_alone(reference->attention(), c, in);
    EXPECT_EQ(different_bits(cached(reference->attention(), c, in).values(), expected.values()), 0U);
    for (const auto& machine : machines()) {
      SCOPED_TRACE(machine->name);
      const HostTensor made = cached(machine->ops->attention(), c, in);
      EXPECT_LE(distance(made.values(), expected.values(), c.type), 1e-5);
      EXPECT_EQ(different_bits(made.values(), each_alone(machine->ops->attention(), c, in).values()), 0U);
    }
  }
}

TEST(AttentionCached, RulesAreChecked) {
  const auto reference = ops::make_reference_ops();
  const Case c = cases().front();
  const auto refuses = [&](auto change) {
    Inputs in(c);
    change(in);
    EXPECT_THROW(cached(reference->attention(), c, in), BrokenRule);
  };
  refuses([](Inputs& in) { in.texts.pop_back(); });
  refuses([](Inputs& in) { in.texts[1].first = 0; });
  refuses([](Inputs& in) { in.texts[1].text = 4; });
  refuses([](Inputs& in) { in.texts[1].position = longest; });
  refuses([](Inputs& in) { in.texts[0].position = -1; });
}

}  // namespace
}  // namespace lockstep::test
