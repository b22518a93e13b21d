#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/access.h"
#include "reference/dropout.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

/// One query of one head of one sample: where its numbers lie.
struct Query {
  std::int64_t sample, head, query;  // b, h, i
  std::int64_t row;                  // of q and o
  std::int64_t column;               // first of the head in q and o
  std::int64_t key_row;              // of key 0 in k and v
  std::int64_t key_column;           // first of the head in k and v
  std::int64_t position;             // of the query in its sample
  std::int64_t first, seen;          // keys first .. seen - 1 are seen
  std::int64_t lse;                  // element of lse and delta
  const std::int32_t* pages = nullptr;

  /// The row of k and v that has key `key`.
  std::int64_t row_of(std::int64_t key) const {
    return pages == nullptr ? key_row + key : pages[key / page_keys] * page_keys + key % page_keys;
  }
};

template <class Body>
void for_each_query(const AttentionShape& s, const Tensor& starts, Body&& body) {
  for (std::int64_t b = 0; b < s.samples; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.queries; ++i) {
        const std::int64_t position = s.first_key + s.first_query() + i, seen = std::min(s.first_query() + i + 1, s.keys);
        const std::int64_t hidden = starts ? *starts_from(starts, b, position) - s.first_key : 0;
        body(Query{b, h, i, b * s.queries + i, h * s.head_size, b * s.key_rows, s.kv_head_of(h) * s.head_size, position,
                   std::clamp<std::int64_t>(hidden, 0, seen), seen, (b * s.heads + h) * s.queries + i});
      }
    }
  }
}

/// A head's elements of a row, from `column` on.
struct HeadRow {
  const Tensor& tensor;
  std::int64_t row, column;
};

double dot(const HeadRow& a, const HeadRow& b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t d = 0; d < count; ++d) {
    sum += static_cast<double>(get(a.tensor, a.row, a.column + d)) * get(b.tensor, b.row, b.column + d);
  }
  return sum;
}

double capped(const AttentionShape& shape, double score) {
  return shape.softcap > 0 ? shape.softcap * std::tanh(score / shape.softcap) : score;
}

double factor_at(const DropoutSite& site, const Query& at_query, std::int64_t key) {
  return dropout_factor(site, at_query.sample, at_query.position, at_query.head * site.index_stride + key);
}

/// A query's row of the weights, and of the mask.
template <class Weight>
void keep_whole(const WholeWeights& whole, const AttentionShape& s, const Query& query, const Weight& weight) {
  for (std::int64_t j = 0; j < s.keys; ++j) {
    const bool seen = j >= query.first && j < query.seen;
    at(whole.weights, query.lse * s.keys + j) = seen ? static_cast<float>(weight(j)) : 0;
    if (whole.mask) at(whole.mask, query.query * s.keys + j) = seen ? 0 : -std::numeric_limits<float>::infinity();
  }
}

class AttentionReference final : public Attention {
 public:
  using Attention::Attention;

 private:
  static void attend(const AttentionForward& call, const Query& query) {
    const auto& [o, lse, q, k, v, s, dropout, further, starts, whole] = call;
    const double scale = s.score_scale();
    std::vector<double> score(static_cast<std::size_t>(query.seen)), value(static_cast<std::size_t>(s.head_size));
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    const double before = further ? at(lse, query.lse) : largest;  // log of the sum over other keys
    for (std::int64_t j = query.first; j < query.seen; ++j) {
      double& x = score[static_cast<std::size_t>(j)];
      x = capped(s, scale * dot({q, query.row, query.column}, {k, query.row_of(j), query.key_column}, s.head_size));
      largest = std::max(largest, x);
    }
    largest = std::max(largest, before);
    const double weight_before = std::exp(before - largest);
    sum = weight_before;
    for (std::int64_t j = query.first; j < query.seen; ++j) sum += std::exp(score[static_cast<std::size_t>(j)] - largest);
    for (std::int64_t d = 0; d < s.head_size; ++d)
      value[static_cast<std::size_t>(d)] = further ? get(o, query.row, query.column + d) * weight_before / sum : 0;
    if (whole)
      keep_whole(whole, s, query, [&](std::int64_t j) { return std::exp(score[static_cast<std::size_t>(j)] - largest) / sum; });
    for (std::int64_t j = query.first; j < query.seen; ++j) {
      const double weight =
          std::exp(score[static_cast<std::size_t>(j)] - largest) / sum * factor_at(dropout, query, s.first_key + j);
      for (std::int64_t d = 0; d < s.head_size; ++d) {
        value[static_cast<std::size_t>(d)] += weight * get(v, query.row_of(j), query.key_column + d);
      }
    }
    for (std::int64_t d = 0; d < s.head_size; ++d) {
      put(o, query.row, query.column + d, value[static_cast<std::size_t>(d)]);
    }
    if (lse && !whole) at(lse, query.lse) = static_cast<float>(largest + std::log(sum));
  }

  void do_forward(const AttentionForward& call) override {
    for_each_query(call.shape, call.starts, [&](const Query& query) { attend(call, query); });
  }

  void do_forward(const CachedAttention& call) override {
    const AttentionShape& s = call.shape;
    const AttentionForward plain{.o = call.o, .lse = {}, .q = call.q, .k = call.k, .v = call.v, .shape = s};
    for (const CachedText& text : call.texts) {
      const auto* pages = reinterpret_cast<const std::int32_t*>(call.pages.data) + text.text * call.pages.stride();
      for (std::int64_t i = 0; i < text.rows * s.heads; ++i) {
        const std::int64_t row = i / s.heads, head = i % s.heads, position = text.position + row;
        const std::int64_t hidden = call.starts ? std::max(0, *starts_from(call.starts, 0, position)) : 0;
        attend(plain, {0, head, row, text.first + row, head * s.head_size, 0, s.kv_head_of(head) * s.head_size, position, hidden,
                       position + 1, 0, pages});
      }
    }
  }

  void do_backward(const AttentionBackward& call) override {
    const auto& [dq, dk, dv, delta, d_o, o, lse, q, k, v, s, dropout, further, starts, parts, part_sums, whole] = call;
    const double scale = s.score_scale();
    const std::int64_t width = s.kv_heads * s.head_size;
    std::vector<double> sum_q(static_cast<std::size_t>(s.head_size));
    std::vector<double> sum_k(static_cast<std::size_t>(k.rows() * width)), sum_v(sum_k.size());
    // What a result holds before it is written.
    const auto sum_in = [more = further](const Tensor& sums, std::int64_t row, std::int64_t column) {
      return more ? static_cast<double>(get(sums, row, column)) : 0.0;
    };
    for_each_query(s, starts, [&](const Query& query) {
      const double row_delta = dot({d_o, query.row, query.column}, {o, query.row, query.column}, s.head_size);
      at(delta, query.lse) = static_cast<float>(row_delta);
      std::fill(sum_q.begin(), sum_q.end(), 0.0);
      for (std::int64_t j = query.first; j < query.seen; ++j) {
        const std::int64_t row = query.key_row + j;
        const double score = capped(s, scale * dot({q, query.row, query.column}, {k, row, query.key_column}, s.head_size));
        const double slope = s.softcap > 0 ? 1 - score / s.softcap * score / s.softcap : 1;
        const double weight = whole ? at(whole.weights, query.lse * s.keys + j) : std::exp(score - at(lse, query.lse));
        const double factor = factor_at(dropout, query, s.first_key + j);
        const double d_weight = factor * dot({d_o, query.row, query.column}, {v, row, query.key_column}, s.head_size);
        const double d_score = scale * slope * weight * (d_weight - row_delta);
        for (std::int64_t d = 0; d < s.head_size; ++d) {
          const auto to = static_cast<std::size_t>(row * width + query.key_column + d);
          sum_q[static_cast<std::size_t>(d)] += d_score * get(k, row, query.key_column + d);
          sum_k[to] += d_score * get(q, query.row, query.column + d);
          sum_v[to] += weight * factor * get(d_o, query.row, query.column + d);
        }
      }
      for (std::int64_t d = 0; d < s.head_size; ++d) {
        const double before = sum_in(dq, query.row, query.column + d);
        put(dq, query.row, query.column + d, before + sum_q[static_cast<std::size_t>(d)]);
      }
    });
    for (std::int64_t i = 0; i < k.rows(); ++i) {
      if (i % s.key_rows >= s.keys) continue;
      for (std::int64_t j = 0; j < width; ++j) {
        put(dk, i, j, sum_in(dk, i, j) + sum_k[static_cast<std::size_t>(i * width + j)]);
        put(dv, i, j, sum_in(dv, i, j) + sum_v[static_cast<std::size_t>(i * width + j)]);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Attention> make_attention(OpObserver* observer) { return std::make_unique<AttentionReference>(observer); }

}  // namespace lockstep::ops::reference
