// Attention's forward kernel: for a tile of queries of one head, blocks of 64 keys in order: scores, online softmax, weights
// times values.

#include <algorithm>

#include "ops/cuda/attention/tile.cuh"

namespace lockstep::ops::cuda {
namespace {

struct ForwardTensors {
  StoredRows q, k, v, o;
  float* lse;    // [B*H, T] or null
  bool further;  // o and lse hold the result of other keys
};

/// What a row of a thread keeps from block to block: one of 16 partial sums of its weights.
struct RowState {
  float largest = lowest, total = 0;
};

/// Whether a run of queries, as the CPU cuts them, sees a key: where it sees none, the result of other keys is left alone.
__device__ __forceinline__ bool run_sees(const Queries& queries, const Heads& heads, std::int64_t place) {
  const std::int64_t padded = (heads.shape.head_size + 31) / 32 * 32, rows = 64 * 256 / padded / 64 * 64;
  const std::int64_t tall = rows < 64 ? 64 : (rows > 256 ? 256 : rows), run = place / tall * tall;
  const std::int64_t first = run > queries.position ? run : queries.position;
  std::int64_t end = run + tall < queries.end() ? run + tall : queries.end();
  if (queries.keys < end) end = queries.keys;
  return queries.first_seen(first, heads.shape.first_key) / tile_size * tile_size < end;
}

/// Scores become weights, not yet divided by their sum. decay: what the row's sums are multiplied by.
__device__ __forceinline__ void weigh(const Heads& heads, const Queries& queries, std::int64_t head, std::int64_t place,
                                      std::int64_t block, Part& scores, RowState (&state)[side], float (&decay)[side]) {
  const float f = heads.scale * log2_e;
#pragma unroll
  for (int r = 0; r < side; ++r) {
    const std::int64_t query = place + own_row(r);
    const bool there = query >= queries.position && query < queries.end();
    const std::int64_t first = there ? queries.first_seen(query, heads.shape.first_key) : 0;
    float largest = lowest;
    bool seen[side];
#pragma unroll
    for (int c = 0; c < side; ++c) {
      const std::int64_t key = block + own_column(c);
      seen[c] = there && key >= first && key <= query && key < queries.keys;
      scores[r][c] = heads.capped(scores[r][c]);
      if (seen[c]) largest = max_of(largest, scores[r][c]);
    }
    largest = lane_largest(largest);
    const float before = state[r].largest, after = max_of(before, largest), shift = -(after * f);
    decay[r] = weight_of(before * f + shift);  // 1 when nothing changes
    state[r].largest = after;
    float sum = 0;
#pragma unroll
    for (int c = 0; c < side; ++c) {
      scores[r][c] = seen[c] ? weight_of(fmaf(scores[r][c], f, shift)) : 0.0F;
      sum += scores[r][c];
      if (heads.drops && seen[c]) scores[r][c] *= heads.factor(queries.sample, head, query, block + own_column(c));
    }
    state[r].total = fmaf(state[r].total, decay[r], sum);
  }
}

/// A tile's sums begin at nothing, or at what the result of other keys stands for, a weight of 1 at the score lse.
template <int parts>
__device__ __forceinline__ void start(const Heads& heads, const HeadTile& o, const float* lse, RowState (&state)[side],
                                      Part (&sums)[parts]) {
#pragma unroll
  for (int r = 0; r < side; ++r) {
    const int row = own_row(r);
    const bool there = row >= o.begin && row < o.end;
    if (there) state[r] = {lse[row] / heads.scale, threadIdx.x % lanes == 0 ? 1.0F : 0.0F};
#pragma unroll
    for (int p = 0; p < parts; ++p) {
#pragma unroll
      for (int c = 0; c < side; ++c) {
        const int column = p * part_columns + own_column(c);
        if (there && column < heads.shape.head_size) sums[p][r][c] = o.get(row, column);
      }
    }
  }
}

/// Divides by the sums of the weights, and stores o and lse.
template <int parts>
__device__ __forceinline__ void finish(const Heads& heads, const HeadTile& o, float* lse, const RowState (&state)[side],
                                       const Part (&sums)[parts]) {
#pragma unroll
  for (int r = 0; r < side; ++r) {
    const int row = own_row(r);
    const float total = lane_sum(state[r].total), inverse = 1.0F / total;
    if (row < o.begin || row >= o.end) continue;
#pragma unroll
    for (int p = 0; p < parts; ++p) {
#pragma unroll
      for (int c = 0; c < side; ++c) {
        const int column = p * part_columns + own_column(c);
        if (column < heads.shape.head_size) o.rows.put(o.first_row + row, o.column + column, sums[p][r][c] * inverse + 0.0F);
      }
    }
    if (lse != nullptr && threadIdx.x % lanes == 0) lse[row] = state[r].largest * heads.scale + logarithm_of_total(total);
  }
}

template <int parts, class Source>
__global__ void __launch_bounds__(tile_threads, 1) forward_kernel(ForwardTensors tensors, Heads heads, Source source) {
  auto& shared = shared_memory<TileShared>();
  const Queries queries = source.at(blockIdx.z);
  const std::int64_t head = blockIdx.y, place = queries.tile_place(gridDim.x - 1 - blockIdx.x);  // the longest first
  if (place >= queries.end() || !run_sees(queries, heads, place)) return;
  const auto size = static_cast<int>(heads.shape.head_size);
  const std::int64_t kv_column = heads.column_of(heads.shape.kv_head_of(head));
  const HeadTile q = queries.query_tile(tensors.q, place, heads.column_of(head));
  const HeadTile o = queries.query_tile(tensors.o, place, heads.column_of(head));
  float* const lse = tensors.lse == nullptr
                         ? nullptr
                         : tensors.lse + (queries.sample * heads.shape.heads + head) * queries.count + place - queries.position;
  const std::int64_t end = place + q.end < queries.keys ? place + q.end : queries.keys;
  RowState state[side];
  Part sums[parts] = {};
  if (tensors.further) start<parts>(heads, o, lse, state, sums);
  std::int64_t block = queries.first_seen(place + q.begin, heads.shape.first_key) / tile_size * tile_size;
  for (; block < end; block += tile_size) {
    Part scores;
    float decay[side];
    score_product(shared, q, queries.key_tile(tensors.k, block, kv_column), size, scores);
    weigh(heads, queries, head, place, block, scores, state, decay);
    keep_scores(shared, scores);
    const HeadTile values = queries.key_tile(tensors.v, block, kv_column);
#pragma unroll
    for (int p = 0; p < parts; ++p) {
      Part product;
      value_product<false>(shared, values, p * part_columns, size, values.end, product);
#pragma unroll
      for (int r = 0; r < side; ++r)
#pragma unroll
        for (int c = 0; c < side; ++c) sums[p][r][c] = fmaf(sums[p][r][c], decay[r], product[r][c]);
    }
  }
  finish<parts>(heads, o, lse, state, sums);
}

template <class Source>
void start_forward(const Context& context, const ForwardTensors& tensors, const Heads& heads, const Source& source,
                   std::int64_t tiles, std::int64_t sources) {
  const dim3 grid(narrow<unsigned>(tiles), narrow<unsigned>(heads.shape.heads), narrow<unsigned>(sources));
  with_parts(heads.shape.head_size, [&](auto parts) {
    launch(context, {grid, tile_threads, sizeof(TileShared)}, &forward_kernel<decltype(parts)::value, Source>, tensors, heads,
           source);
  });
}

}  // namespace

void attention_forward(const Context& context, const AttentionForward& call) {
  const AttentionShape& shape = call.shape;
  if (shape.queries == 0) return;
  start_forward(context,
                {stored_rows(call.q), stored_rows(call.k), stored_rows(call.v), stored_rows(call.o), data_of<float>(call.lse),
                 call.further},
                heads_of(shape, call.dropout), samples_of(shape, call.starts), query_tiles(shape.first_query(), shape.queries),
                shape.samples);
}

void attention_forward(const Context& context, const CachedAttention& call) {
  const ForwardTensors tensors{
      stored_rows(call.q), stored_rows(call.k), stored_rows(call.v), stored_rows(call.o), nullptr, false};
  for (std::size_t first = 0; first < call.texts.size(); first += Texts::most) {
    const auto some = call.texts.subspan(first, std::min<std::size_t>(Texts::most, call.texts.size() - first));
    const Texts texts = texts_of(call, some);
    std::int64_t tiles = 0;
    for (const CachedText& text : some) tiles = std::max(tiles, query_tiles(text.position, text.rows));
    start_forward(context, tensors, heads_of(call.shape, {}), texts, tiles, std::ssize(some));
  }
}

}  // namespace lockstep::ops::cuda
