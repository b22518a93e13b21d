// Attention's backward kernels. Weights are computed again from lse. A block of 64 keys sums its dk and dv over blocks of queries
// in order, head by head. A tile of queries sums its dq over blocks of keys in order.

#include "ops/cuda/attention/tile.cuh"

namespace lockstep::ops::cuda {
namespace {

struct BackwardTensors {
  StoredRows q, k, v, d_o;
  const float *lse, *delta;  // [B*H, T]
  bool further;              // results are added to
};

/// A block of scores, a tile of queries and a block of keys.
struct Block {
  std::int64_t head, place, keys;
  const float *lse, *delta;  // of the tile's row 0, which may not be there
};

/// scores become weights, 0 where a query does not see a key, and d_weights, d_o times the transpose of v, the gradient of
/// scores.
__device__ __forceinline__ void weigh(const Heads& heads, const Queries& queries, const Block& block, Part& scores,
                                      Part& d_weights) {
  const float f = heads.scale * log2_e;
#pragma unroll
  for (int r = 0; r < side; ++r) {
    const std::int64_t query = block.place + own_row(r);
    const bool there = query >= queries.position && query < queries.end();
    const float shift = there ? -block.lse[own_row(r)] * log2_e : 0.0F, delta = there ? block.delta[own_row(r)] : 0.0F;
    const std::int64_t first = there ? queries.first_seen(query, heads.shape.first_key) : 0;
#pragma unroll
    for (int c = 0; c < side; ++c) {
      const std::int64_t key = block.keys + own_column(c);
      const float score = heads.capped(scores[r][c]);
      float weight = 0, d_score = 0;
      if (there && key >= first && key <= query && key < queries.keys) {
        const float factor = heads.drops ? heads.factor(queries.sample, block.head, query, key) : 1.0F;
        weight = weight_of(fmaf(score, f, shift));
        d_score = weight * (d_weights[r][c] * factor - delta);
        weight *= factor;
        if (heads.softcap > 0) {
          const float tanh = score * (1 / heads.softcap);
          d_score *= fmaf(-tanh, tanh, 1.0F);
        }
      }
      scores[r][c] = weight;
      d_weights[r][c] = d_score;
    }
  }
}

/// The weights of a block and the gradient of its scores.
__device__ __forceinline__ void make_block(TileShared& shared, const BackwardTensors& tensors, const Heads& heads,
                                           const Queries& queries, Block block, Part& weights, Part& d_scores) {
  const auto size = static_cast<int>(heads.shape.head_size);
  const std::int64_t column = heads.column_of(block.head), kv_column = heads.column_of(heads.shape.kv_head_of(block.head));
  const std::int64_t row = (queries.sample * heads.shape.heads + block.head) * queries.count + block.place - queries.position;
  block.lse = tensors.lse + row;
  block.delta = tensors.delta + row;
  score_product(shared, queries.query_tile(tensors.q, block.place, column), queries.key_tile(tensors.k, block.keys, kv_column),
                size, weights);
  score_product(shared, queries.query_tile(tensors.d_o, block.place, column), queries.key_tile(tensors.v, block.keys, kv_column),
                size, d_scores);
  weigh(heads, queries, block, weights, d_scores);
}

/// sums = scale * (the kept tile, or its transpose, times `values`) + sums.
template <bool transposed, int parts>
__device__ __forceinline__ void accumulate(TileShared& shared, const HeadTile& values, int head_size, float scale,
                                           Part (&sums)[parts]) {
#pragma unroll
  for (int p = 0; p < parts; ++p) {
    Part product;
    value_product<transposed>(shared, values, p * part_columns, head_size, values.end, product);
#pragma unroll
    for (int r = 0; r < side; ++r)
#pragma unroll
      for (int c = 0; c < side; ++c) sums[p][r][c] = fmaf(product[r][c], scale, sums[p][r][c]);
  }
}

template <int parts>
__device__ __forceinline__ void load_sums(const HeadTile& from, std::int64_t head_size, Part (&sums)[parts]) {
#pragma unroll
  for (int p = 0; p < parts; ++p)
#pragma unroll
    for (int r = 0; r < side; ++r)
#pragma unroll
      for (int c = 0; c < side; ++c) {
        const int column = p * part_columns + own_column(c);
        sums[p][r][c] = column < head_size ? from.get(own_row(r), column) : 0.0F;
      }
}

template <int parts>
__device__ __forceinline__ void store_sums(const HeadTile& to, std::int64_t head_size, const Part (&sums)[parts]) {
#pragma unroll
  for (int p = 0; p < parts; ++p)
#pragma unroll
    for (int r = 0; r < side; ++r)
#pragma unroll
      for (int c = 0; c < side; ++c) {
        const int row = own_row(r), column = p * part_columns + own_column(c);
        const bool there = row >= to.begin && row < to.end && column < head_size;
        if (there) to.rows.put(to.first_row + row, to.column + column, sums[p][r][c] + 0.0F);
      }
}

template <int parts>
__global__ void __launch_bounds__(tile_threads, 1)
    queries_kernel(BackwardTensors tensors, StoredRows dq, Heads heads, Samples samples) {
  auto& shared = shared_memory<TileShared>();
  const Queries queries = samples.at(blockIdx.z);
  const std::int64_t head = blockIdx.y, place = queries.tile_place(gridDim.x - 1 - blockIdx.x);  // the longest first
  const auto size = static_cast<int>(heads.shape.head_size);
  const HeadTile result = queries.query_tile(dq, place, heads.column_of(head));
  const std::int64_t kv_column = heads.column_of(heads.shape.kv_head_of(head));
  const std::int64_t end = place + result.end < queries.keys ? place + result.end : queries.keys;
  Part sums[parts] = {};
  if (tensors.further) load_sums<parts>(result, size, sums);
  std::int64_t keys = queries.first_seen(place + result.begin, heads.shape.first_key) / tile_size * tile_size;
  for (; keys < end; keys += tile_size) {
    Part weights, d_scores;
    make_block(shared, tensors, heads, queries, {head, place, keys, nullptr, nullptr}, weights, d_scores);
    keep_scores(shared, d_scores);
    accumulate<false, parts>(shared, queries.key_tile(tensors.k, keys, kv_column), size, heads.scale, sums);
  }
  store_sums<parts>(result, size, sums);
}

template <int parts>
__global__ void __launch_bounds__(tile_threads, 1)
    keys_kernel(BackwardTensors tensors, StoredRows dk, StoredRows dv, Heads heads, Samples samples, HeadParts all) {
  auto& shared = shared_memory<TileShared>();
  const Queries queries = samples.at(blockIdx.z);
  const HeadPart part = all.of[blockIdx.y];
  const auto size = static_cast<int>(heads.shape.head_size);
  const std::int64_t keys = std::int64_t{blockIdx.x} * tile_size, column = heads.column_of(all.first + blockIdx.y);
  const HeadTile dk_tile = queries.key_tile(dk, keys, column), dv_tile = queries.key_tile(dv, keys, column);
  Part dk_sums[parts] = {}, dv_sums[parts] = {};
  if (tensors.further) {
    load_sums<parts>(dk_tile, size, dk_sums);
    load_sums<parts>(dv_tile, size, dv_sums);
  }
  const std::int64_t begin = queries.tile_place(0) > keys ? queries.tile_place(0) : keys;
  for (std::int64_t head = part.first; head < part.first + part.count; ++head) {
    for (std::int64_t place = begin; place < queries.end(); place += tile_size) {
      Part weights, d_scores;
      make_block(shared, tensors, heads, queries, {head, place, keys, nullptr, nullptr}, weights, d_scores);
      keep_scores(shared, weights);
      accumulate<true, parts>(shared, queries.query_tile(tensors.d_o, place, heads.column_of(head)), size, 1, dv_sums);
      __syncthreads();  // the weights were read
      keep_scores(shared, d_scores);
      accumulate<true, parts>(shared, queries.query_tile(tensors.q, place, heads.column_of(head)), size, heads.scale, dk_sums);
    }
  }
  store_sums<parts>(dk_tile, size, dk_sums);
  store_sums<parts>(dv_tile, size, dv_sums);
}

BackwardTensors tensors_of(const AttentionBackward& call) {
  return {stored_rows(call.q),
          stored_rows(call.k),
          stored_rows(call.v),
          stored_rows(call.d_o),
          data_of<const float>(call.lse),
          data_of<const float>(call.delta),
          call.further};
}

}  // namespace

void attention_queries_backward(const Context& context, const AttentionBackward& call) {
  const AttentionShape& shape = call.shape;
  const dim3 grid(narrow<unsigned>(query_tiles(shape.first_query(), shape.queries)), narrow<unsigned>(shape.heads),
                  narrow<unsigned>(shape.samples));
  with_parts(shape.head_size, [&](auto parts) {
    launch(context, {grid, tile_threads, sizeof(TileShared)}, &queries_kernel<decltype(parts)::value>, tensors_of(call),
           stored_rows(call.dq), heads_of(shape, call.dropout), samples_of(shape, call.starts));
  });
}

void attention_keys_backward(const Context& context, const AttentionBackward& call, std::span<const HeadPart> head_parts,
                             const Tensor& dk, const Tensor& dv) {
  const AttentionShape& shape = call.shape;
  for (std::size_t first = 0; first < head_parts.size(); first += HeadParts::most) {
    const auto some = head_parts.subspan(first, std::min<std::size_t>(HeadParts::most, head_parts.size() - first));
    HeadParts all{.first = static_cast<std::int64_t>(first), .of = {}};
    std::ranges::copy(some, all.of);
    const dim3 grid(blocks_of(shape.keys, tile_size), narrow<unsigned>(some.size()), narrow<unsigned>(shape.samples));
    with_parts(shape.head_size, [&](auto parts) {
      launch(context, {grid, tile_threads, sizeof(TileShared)}, &keys_kernel<decltype(parts)::value>, tensors_of(call),
             stored_rows(dk), stored_rows(dv), heads_of(shape, call.dropout), samples_of(shape, call.starts), all);
    });
  }
}

}  // namespace lockstep::ops::cuda
