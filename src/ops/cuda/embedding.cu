// Token and position rows. All places of a token form a chain from its first one. So one block of threads adds them in order,
// without sorting and without atomics.

#include "base/checked.h"
#include "ops/cuda/device/each.cuh"
#include "ops/cuda/device/sum_tree.cuh"

namespace lockstep::ops::cuda {
namespace {

constexpr std::int64_t group_tokens = 64;      // whose rows are added before they are added to a table's
constexpr std::int64_t most_tokens = 1 << 14;  // that are chained at a time: a chain's end is searched among them

template <class S>
struct Forward {
  Rows<S> y;
  const std::int32_t* tokens;
  Rows<const S> token_table, position_table;  // position_table may be null
  std::int64_t first_token, table_rows;
  Places places;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    const std::int64_t row = tokens[i] - first_token;
    float value = 0;
    if (row >= 0 && row < table_rows) {
      value = load(token_table.at(row, j));
      if (position_table.data != nullptr) value += load(position_table.at(places.of(i), j));
    }
    store(y.at(i, j), value);
  }
};

/// For each token: whether it is the first of its row, and the place of the next one; -1: none.
struct Chains {
  const std::int32_t* tokens;
  std::int32_t *next, *leads;
  std::int64_t count, first_token, table_rows;
  __device__ bool leads_row(std::int64_t i) const { return leads[i] != 0; }
  __device__ std::int64_t row(std::int64_t i) const { return tokens[i] - first_token; }
};

struct FindChains {
  Chains chains;
  __device__ void operator()(std::int64_t i) const {
    const std::int32_t* const tokens = chains.tokens;
    const std::int32_t token = tokens[i];
    std::int64_t before = i - 1, behind = i + 1;
    while (before >= 0 && tokens[before] != token) --before;
    while (behind < chains.count && tokens[behind] != token) ++behind;
    const std::int64_t row = chains.row(i);
    chains.leads[i] = before < 0 && row >= 0 && row < chains.table_rows ? 1 : 0;
    chains.next[i] = behind < chains.count ? static_cast<std::int32_t>(behind) : -1;
  }
};

/// The table's rows += the rows of dy of their tokens, group by group.
template <class S>
struct Scatter {
  Chains chains;
  Rows<float> table;
  Rows<const S> dy;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    if (!chains.leads_row(i)) return;
    float* const to = table.at(chains.row(i), j);
    float total = *to;
    for (std::int64_t place = i; place >= 0;) {
      const std::int64_t group = place / group_tokens;
      float sum = load(dy.at(place, j));
      while ((place = chains.next[place]) >= 0 && place / group_tokens == group) sum += load(dy.at(place, j));
      total += sum;
    }
    *to = total;
  }
};

/// Behind the last token of each range.
struct RangeEnds {
  int count = 0;
  std::int64_t of[GridRuns::most_ranges] = {};
};

/// The same, summed by ranges.
template <class S>
struct ScatterRanges {
  Chains chains;
  Rows<float> table;
  Rows<const S> dy;
  RangeEnds ends;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    if (!chains.leads_row(i)) return;
    SumTree<1> tree;
    float sum[1] = {};
    std::int64_t place = i;
    for (int range = 0; range < ends.count; ++range) {
      sum[0] = 0;
      for (; place >= 0 && place < ends.of[range]; place = chains.next[place]) sum[0] += load(dy.at(place, j));
      tree.put(range, sum);
    }
    *table.at(chains.row(i), j) += sum[0];
  }
};

/// Rows by position, samples in order in blocks of 64.
template <class S>
struct SumPositions {
  Rows<float> table;
  Rows<const S> dy;
  PositionRun front, back;
  std::int64_t samples;
  bool accumulate;
  __device__ void operator()(std::int64_t position, std::int64_t j) const {
    std::int64_t row = -1;
    if (position >= front.first && position < front.first + front.count) row = position - front.first;
    if (position >= back.first && position < back.first + back.count) row = front.count + position - back.first;
    float total = accumulate ? *table.at(position, j) : 0.0F;
    for (std::int64_t block = 0; row >= 0 && block < samples; block += group_tokens) {
      float sum = 0;
      for (std::int64_t s = block; s < block + group_tokens && s < samples; ++s) {
        sum += load(dy.at(s * (front.count + back.count) + row, j));
      }
      total += sum;
    }
    *table.at(position, j) = total;
  }
};

struct FindPlaces {
  std::int32_t* found;
  Places places;
  std::int64_t first;
  __device__ void operator()(std::int64_t i) const { found[i] = static_cast<std::int32_t>(places.of(first + i)); }
};

/// Rows by their places in documents, one by one.
template <class S>
struct SumPlaces {
  Rows<float> table;
  Rows<const S> dy;
  const std::int32_t* places;
  std::int64_t rows;
  bool accumulate;
  __device__ void operator()(std::int64_t place, std::int64_t j) const {
    float total = accumulate ? *table.at(place, j) : 0.0F;
    for (std::int64_t i = 0; i < rows; ++i) {
      if (places[i] == place) total += load(dy.at(i, j));
    }
    *table.at(place, j) = total;
  }
};

/// sum += part and part = 0, once for each row.
struct MoveRows {
  Chains chains;
  Rows<float> sum, part;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    if (!chains.leads_row(i)) return;
    *sum.at(chains.row(i), j) += *part.at(chains.row(i), j);
    *part.at(chains.row(i), j) = 0;
  }
};

struct TakeRows {
  Rows<float> rows, part;
  const std::int32_t* tokens;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    *rows.at(i, j) = *part.at(tokens[i], j);
    *part.at(tokens[i], j) = 0;
  }
};

class CudaEmbedding final : public Embedding {
 public:
  explicit CudaEmbedding(const Context& context) : Embedding(context.observer), context_(context) {}

 private:
  /// The chains of `tokens` in `memory`, two numbers a token.
  Chains chain(const Tensor& tokens, std::int64_t first_token, std::int64_t table_rows, std::int32_t* memory) {
    const std::int64_t count = tokens.elements();
    const Chains chains{data_of<const std::int32_t>(tokens), memory, memory + count, count, first_token, table_rows};
    for_elements(context_, count, FindChains{chains});
    return chains;
  }

  /// body(chains, first token, tokens) for as many tokens at a time as are chained together.
  template <class Body>
  void in_rounds(const Tensor& tokens, std::int64_t first_token, std::int64_t table_rows, const Body& body) {
    static_assert(most_tokens % group_tokens == 0);
    for (std::int64_t first = 0; first < tokens.elements(); first += most_tokens) {
      const std::int64_t count = std::min(most_tokens, tokens.elements() - first);
      body(chain(tokens.flat(first, count), first_token, table_rows, context_.scratch<std::int32_t>().data()), first, count);
    }
  }

  void do_forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                  const Positions& positions, std::int64_t first_token, const Tensor& starts) override {
    with_storage(y.dtype, [&]<class S>(S) {
      for_matrix(context_, y.rows(), y.columns(),
                 Forward<S>{rows_of<S>(y), data_of<const std::int32_t>(tokens), rows_of<const S>(token_table),
                            rows_of<const S>(position_table), first_token, token_table.rows(), places_of(positions, starts)});
    });
  }

  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token) override {
    in_rounds(tokens, first_token, d_tokens.rows(), [&](const Chains& chains, std::int64_t first, std::int64_t count) {
      with_storage(dy.dtype, [&]<class S>(S) {
        for_matrix(context_, count, dy.columns(),
                   Scatter<S>{chains, rows_of<float>(d_tokens), rows_of<const S>(dy.slice_rows(first, count))});
      });
    });
  }

  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                          const SumGrid& grid, const Tensor& workspace) override {
    demand(grid.ranges.size() <= GridRuns::most_ranges, "grid", "it has at most eight ranges");
    RangeEnds ends;
    for (const std::vector<IndexRun>& range : grid.ranges) ends.of[ends.count++] = range.back().end();
    const Chains chains = chain(tokens, first_token, d_tokens.rows(), data_of<std::int32_t>(workspace));
    with_storage(dy.dtype, [&]<class S>(S) {
      for_matrix(context_, tokens.elements(), dy.columns(),
                 ScatterRanges<S>{chains, rows_of<float>(d_tokens), rows_of<const S>(dy), ends});
    });
  }

  void do_backward_positions(const Tensor& d_table, const Tensor& dy, const Positions& positions, bool accumulate,
                             const Tensor& starts) override {
    if (starts) return add_places(d_table, dy, places_of(positions, starts), accumulate);
    with_storage(dy.dtype, [&]<class S>(S) {
      const std::int64_t samples = dy.rows() / std::max<std::int64_t>(1, positions.count());
      for_matrix(context_, d_table.rows(), dy.columns(),
                 SumPositions<S>{rows_of<float>(d_table), rows_of<const S>(dy), positions.runs()[0], positions.runs()[1], samples,
                                 accumulate});
    });
  }

  void add_places(const Tensor& d_table, const Tensor& dy, const Places& places, bool accumulate) {
    const std::span<std::int32_t> found = context_.scratch<std::int32_t>();
    std::int64_t first = 0;
    do {
      const std::int64_t count = std::min(dy.rows() - first, std::ssize(found));
      for_elements(context_, count, FindPlaces{found.data(), places, first});
      with_storage(dy.dtype, [&]<class S>(S) {
        for_matrix(context_, d_table.rows(), dy.columns(),
                   SumPlaces<S>{rows_of<float>(d_table), rows_of<const S>(dy.slice_rows(first, count)), found.data(), count,
                                accumulate});
      });
      accumulate = true;
      first += count;
    } while (first < dy.rows());
  }

  void do_add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) override {
    in_rounds(tokens, 0, sum.rows(), [&](const Chains& chains, std::int64_t, std::int64_t count) {
      for_matrix(context_, count, sum.columns(), MoveRows{chains, rows_of<float>(sum), rows_of<float>(part)});
    });
  }

  void do_take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) override {
    for_matrix(context_, rows.rows(), rows.columns(),
               TakeRows{rows_of<float>(rows), rows_of<float>(part), data_of<const std::int32_t>(tokens)});
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Embedding> make_embedding(const Context& context) { return std::make_unique<CudaEmbedding>(context); }

}  // namespace lockstep::ops::cuda
