// Token and position rows. Gradients are dealt out by stripes of 64 columns, whose sums stay in registers.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/embedding.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <cstring>

#include "base/sum_tree.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/row_calls.h"
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/token_order.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

template <class S>
HWY_FLATTEN void EmbeddingRow(S* to, const S* token, const S* position, std::int64_t columns) {
  ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen row = group.Load(token + j);
    group.Store(position != nullptr ? Add(row, group.Load(position + j)) : row, to + j);
  });
}

void EmbeddingRows(const Tensor& y, const Tensor& tokens, const EmbeddingTables& tables, const Positions& positions,
                   const Tensor& starts, std::int64_t first, std::int64_t last) {
  const auto& [token_table, position_table, first_token] = tables;
  WithStorage(y.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = ids(tokens)[i] - first_token;
      if (row < 0 || row >= token_table.rows()) {
        std::memset(row_of<S>(y, i), 0, static_cast<std::size_t>(y.columns()) * sizeof(S));
        continue;
      }
      EmbeddingRow(row_of<S>(y, i), row_of<S>(token_table, row), row_of<S>(position_table, place_of(positions, starts, i)),
                   y.columns());
    }
  });
}

/// `kGroups` groups of sixteen columns from `column`: a body for whole stripes and for what is left of a row.
template <std::size_t kGroups, class Group>
struct Stripe {
  std::int64_t column;
  Group group;
  Sixteen sum[kGroups];

  template <class S>
  HWY_INLINE void Set(const S* row) {
    for (std::size_t g = 0; g < kGroups; ++g) sum[g] = group.Load(row + column + 16 * g);
  }
  template <class S>
  HWY_INLINE void AddRow(const S* row) {
    for (std::size_t g = 0; g < kGroups; ++g) sum[g] = Add(sum[g], group.Load(row + column + 16 * g));
  }
  /// row += the sum.
  HWY_INLINE void AddTo(float* row) const {
    for (std::size_t g = 0; g < kGroups; ++g) {
      group.Store(Add(group.Load(row + column + 16 * g), sum[g]), row + column + 16 * g);
    }
  }
};

/// Calls body(stripe) for columns [first, last), at most 64.
template <class Body>
HWY_INLINE void ForStripe(std::int64_t first, std::int64_t last, const Body& body) {
  if (last - first == 64) return body(Stripe<4, WholeGroup>{first, {}, {}});
  ForColumns(last - first, [&](std::int64_t j, auto group) HWY_ATTR { body(Stripe<1, decltype(group)>{first + j, group, {}}); });
}

/// Columns [first, last) of the table's rows += the rows of dy of their tokens, block of 64 tokens by block.
template <class S>
HWY_FLATTEN void ScatterColumnsAs(const Tensor& d_tokens, const Tensor& dy, const TokenPlace* tokens, std::int64_t count,
                                  std::int64_t first, std::int64_t last) {
  ForStripe(first, last, [&](auto stripe) HWY_ATTR {
    for (std::int64_t i = 0; i < count; ++i) {
      const TokenPlace token = tokens[i];
      stripe.Set(row_of<S>(dy, token.place));
      for (; i + 1 < count && tokens[i + 1].row == token.row && tokens[i + 1].place / 64 == token.place / 64; ++i) {
        stripe.AddRow(row_of<S>(dy, tokens[i + 1].place));
      }
      stripe.AddTo(row_of(d_tokens, token.row));
    }
  });
}

void ScatterColumns(const Tensor& d_tokens, const Tensor& dy, const TokenPlace* tokens, std::int64_t count, std::int64_t first,
                    std::int64_t last) {
  WithStorage(dy.dtype, [&](auto zero) HWY_ATTR { ScatterColumnsAs<decltype(zero)>(d_tokens, dy, tokens, count, first, last); });
}

/// Columns [first, last), at most 64, of the table's rows += the rows of dy of their tokens, summed by the grid's ranges.
void ScatterGrid(const Tensor& d_tokens, const Tensor& dy, std::span<const TokenPlace> tokens, const SumGrid& grid,
                 std::int64_t first, std::int64_t last) {
  constexpr std::size_t most_places = 16;
  ensure(places_of_tree(static_cast<int>(grid.ranges.size())) <= static_cast<int>(most_places), "a tree has few places");
  HWY_ALIGN float places[most_places][64];
  WithStorage(dy.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    for (std::size_t next = 0; next < tokens.size();) {
      const std::int32_t row = tokens[next].row;
      for (int range = 0; range < std::ssize(grid.ranges); ++range) {
        const std::int64_t end = grid.ranges[static_cast<std::size_t>(range)].back().end();
        float* const sum = places[place_in_tree(range)];
        std::memset(sum, 0, sizeof(places[0]));
        for (; next < tokens.size() && tokens[next].row == row && tokens[next].place < end; ++next) {
          const S* from = row_of<S>(dy, tokens[next].place) + first;
          ForColumns(last - first, [&](std::int64_t j, auto group)
                                       HWY_ATTR { group.Store(Add(group.Load(sum + j), group.Load(from + j)), sum + j); });
        }
        merge_behind(range, [&](int to, int from) HWY_ATTR {
          for (std::int64_t j = 0; j < 64; j += 16) {
            const WholeGroup group;
            group.Store(Add(group.Load(places[to] + j), group.Load(places[from] + j)), places[to] + j);
          }
        });
      }
      float* const to = row_of(d_tokens, row) + first;
      ForColumns(last - first, [&](std::int64_t j, auto group)
                                   HWY_ATTR { group.Store(Add(group.Load(to + j), group.Load(places[0] + j)), to + j); });
    }
  });
}

/// `to`, a row of d_table, += row `row` of every sample of dy, which have `rows` each, block of 64 samples by block.
template <class S>
HWY_FLATTEN void SumPositionAs(float* to, const Tensor& dy, std::int64_t rows, std::int64_t row) {
  const std::int64_t columns = dy.columns(), samples = dy.rows() / rows;
  for (std::int64_t column = 0; column < columns; column += 64) {
    ForStripe(column, std::min(column + 64, columns), [&](auto stripe) HWY_ATTR {
      for (std::int64_t block = 0; block < samples; block += 64) {
        stripe.Set(row_of<S>(dy, block * rows + row));
        for (std::int64_t s = block + 1; s < std::min(block + 64, samples); ++s) {
          stripe.AddRow(row_of<S>(dy, s * rows + row));
        }
        stripe.AddTo(to);
      }
    });
  }
}

void SumPosition(float* to, const Tensor& dy, std::int64_t rows, bool accumulate, std::int64_t row) {
  if (!accumulate) std::memset(to, 0, static_cast<std::size_t>(dy.columns()) * sizeof(float));
  WithStorage(dy.dtype, [&](auto zero) HWY_ATTR { SumPositionAs<decltype(zero)>(to, dy, rows, row); });
}

/// Columns [first, last) of d_table's rows += the rows of dy that have their positions in documents, in order.
void ScatterPlaces(const Tensor& d_table, const Tensor& dy, const Positions& positions, const Tensor& starts, std::int64_t first,
                   std::int64_t last) {
  WithStorage(dy.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    for (std::int64_t i = 0; i < dy.rows(); ++i) {
      ForStripe(first, last, [&](auto stripe) HWY_ATTR {
        stripe.Set(row_of<S>(dy, i));
        stripe.AddTo(row_of(d_table, place_of(positions, starts, i)));
      });
    }
  });
}

/// Columns [first, last) of sum += part and part = 0, once for each row.
void MoveColumns(const Tensor& sum, const Tensor& part, const TokenPlace* tokens, std::int64_t count, std::int64_t first,
                 std::int64_t last) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0 && tokens[i].row == tokens[i - 1].row) continue;
    float* from = row_of(part, tokens[i].row) + first;
    float* to = row_of(sum, tokens[i].row) + first;
    ForColumns(last - first, [&](std::int64_t j, auto group) HWY_ATTR {
      group.Store(Add(group.Load(to + j), group.Load(from + j)), to + j);
      group.Store(Splat(0), from + j);
    });
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(EmbeddingRows);
HWY_EXPORT(ScatterColumns);
HWY_EXPORT(ScatterGrid);
HWY_EXPORT(SumPosition);
HWY_EXPORT(ScatterPlaces);
HWY_EXPORT(MoveColumns);

constexpr std::int64_t stripe_columns = 64;

class CpuEmbedding final : public Embedding {
 public:
  explicit CpuEmbedding(const Context& context) : Embedding(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    rows_ = &HWY_DYNAMIC_DISPATCH(EmbeddingRows);
    scatter_ = &HWY_DYNAMIC_DISPATCH(ScatterColumns);
    scatter_grid_ = &HWY_DYNAMIC_DISPATCH(ScatterGrid);
    sum_position_ = &HWY_DYNAMIC_DISPATCH(SumPosition);
    scatter_places_ = &HWY_DYNAMIC_DISPATCH(ScatterPlaces);
    move_ = &HWY_DYNAMIC_DISPATCH(MoveColumns);
  }

 private:
  void do_forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                  const Positions& positions, std::int64_t first_token, const Tensor& starts) override {
    context_.deal(y.rows(), rows_per_tile(y.columns()), [&](std::int64_t first, std::int64_t last) {
      rows_(y, tokens, {token_table, position_table, first_token}, positions, starts, first, last);
    });
  }

  /// body(sorted tokens that the table has) for as many tokens at a time as the workspace sorts.
  template <class Body>
  void for_sorted(const Tensor& tokens, const TableRows& table, const Body& body) {
    const std::span<TokenPlace> memory = context_.scratch<TokenPlace>();
    for (std::int64_t begin = 0; begin < tokens.elements(); begin += max_sorted_tokens) {
      const std::int64_t count = std::min(max_sorted_tokens, tokens.elements() - begin);
      body(sort_by_row({ids(tokens) + begin, static_cast<std::size_t>(count)}, table, narrow<std::int32_t>(begin), memory));
    }
  }

  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token) override {
    for_sorted(tokens, {first_token, d_tokens.rows()}, [&](std::span<const TokenPlace> sorted) {
      context_.deal(dy.columns(), stripe_columns, [&](std::int64_t first, std::int64_t last) {
        scatter_(d_tokens, dy, sorted.data(), std::ssize(sorted), first, last);
      });
    });
  }

  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                          const SumGrid& grid, const Tensor& workspace) override {
    const auto count = static_cast<std::size_t>(tokens.elements());
    const std::span<const TokenPlace> sorted =
        sort_by_row({ids(tokens), count}, {first_token, d_tokens.rows()}, 0, {data_of<TokenPlace>(workspace), 2 * count});
    context_.deal(dy.columns(), stripe_columns,
                  [&](std::int64_t first, std::int64_t last) { scatter_grid_(d_tokens, dy, sorted, grid, first, last); });
  }

  void do_backward_positions(const Tensor& d_table, const Tensor& dy, const Positions& positions, bool accumulate,
                             const Tensor& starts) override {
    if (starts) {
      if (!accumulate) zero_rows(d_table, 0, d_table.rows());
      return context_.deal(dy.columns(), stripe_columns, [&](std::int64_t first, std::int64_t last) {
        scatter_places_(d_table, dy, positions, starts, first, last);
      });
    }
    const std::int64_t rows = positions.count();
    const std::int64_t tile = rows_per_tile(dy.columns() * std::max<std::int64_t>(1, dy.rows() / rows));
    context_.deal(rows, tile, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t t = first; t < last; ++t) sum_position_(row_of(d_table, positions.at(t)), dy, rows, accumulate, t);
    });
    if (accumulate) return;
    std::int64_t next = 0;
    for (const PositionRun& run : positions.runs()) {
      zero_rows(d_table, next, run.first);
      next = run.end();
    }
    zero_rows(d_table, next, d_table.rows());
  }

  static void zero_rows(const Tensor& x, std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      std::memset(row_of(x, i), 0, static_cast<std::size_t>(x.columns()) * sizeof(float));
    }
  }

  void do_add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) override {
    for_sorted(tokens, {0, sum.rows()}, [&](std::span<const TokenPlace> sorted) {
      context_.deal(sum.columns(), stripe_columns, [&](std::int64_t first, std::int64_t last) {
        move_(sum, part, sorted.data(), std::ssize(sorted), first, last);
      });
    });
  }

  void do_take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) override {
    const std::size_t bytes = static_cast<std::size_t>(rows.columns()) * sizeof(float);
    context_.deal(rows.rows(), rows_per_tile(rows.columns()), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        float* from = row_of(part, ids(tokens)[i]);
        std::memcpy(row_of(rows, i), from, bytes);
        std::memset(from, 0, bytes);
      }
    });
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(EmbeddingRows)) rows_;
  decltype(&HWY_STATIC_DISPATCH(ScatterColumns)) scatter_;
  decltype(&HWY_STATIC_DISPATCH(ScatterGrid)) scatter_grid_;
  decltype(&HWY_STATIC_DISPATCH(SumPosition)) sum_position_;
  decltype(&HWY_STATIC_DISPATCH(ScatterPlaces)) scatter_places_;
  decltype(&HWY_STATIC_DISPATCH(MoveColumns)) move_;
};

}  // namespace

std::unique_ptr<Embedding> make_embedding(const Context& context) { return std::make_unique<CpuEmbedding>(context); }

}  // namespace lockstep::ops::cpu
#endif
