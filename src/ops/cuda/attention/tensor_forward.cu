// Attention's forward kernel on tensor cores: tiles of 128 queries, blocks of 64 keys in order.

#include "ops/cuda/attention/tensor_tile.cuh"

namespace lockstep::ops::cuda {
namespace {

constexpr int block_keys = 64, tile_rows = 128;

/// How warps share out a tile: larger heads leave a thread no registers for two fragments of rows.
template <int size_>
struct Sizes {
  static constexpr int size = size_, wide = block_keys / 8;
  static constexpr int high = size == 64 ? 2 : 1, warp_rows = high * 16;
  // Where q lies: in the second stage until warps have it in registers, or where it may stay.
  static constexpr int q_stage = high == 1 ? 1 : 2;
  using Rows = std::conditional_t<high == 1, KeptRows<size, high>, SharedRows<size, high>>;
  static constexpr unsigned threads = tile_rows / warp_rows * warp;
  using Scores = Fragments<high, wide>;
  using Weights = Pairs<high, wide>;
  using Sums = Fragments<high, size / 8>;
};

struct ForwardTensors {
  HeadRows q, k, v;
  ResultRows o;
  float* lse;    // [B*H, T] or null
  bool further;  // o and lse hold the result of other keys
};

/// A tile of a head's queries. Rows are counted from the tile's first, places from key 0.
struct Tile {
  int head, column, kv_column;
  std::int64_t first_row;  // of q and o
  int rows, place, keys;   // how many; of row 0; that there are
  int first, end;          // the keys that are walked, whole blocks of them
};

template <class Of>
struct ForwardShared {
  struct Block {
    Strip<Of::size, block_keys> k, v;
  };
  union Stage {
    Block block;
    Strip<Of::size, tile_rows> q;
  };
  Stage stages[Of::q_stage + 1];
  // What a loop would else keep in registers.
  Queries queries;
  Tile tile;
};

/// What a lane keeps of its rows from block to block; of the total it has a part.
template <class Of>
struct RowStates {
  float largest[Of::high][2], total[Of::high][2];
};

/// The first key that a row sees.
__device__ __forceinline__ int first_seen(const Queries& queries, const Heads& heads, const Tile& tile, int row) {
  const int last = tile.rows - 1;
  return static_cast<int>(queries.first_seen(tile.place + (row < last ? row : last), heads.shape.first_key));
}

__device__ __forceinline__ float* lse_of(const ForwardTensors& tensors, const Queries& queries, const Heads& heads,
                                         const Tile& tile, int row) {
  return tensors.lse + (queries.sample * heads.shape.heads + tile.head) * queries.count + tile.place - queries.position + row;
}

/// Scores of keys that a row does not see become those of no weight.
template <class Of>
__device__ __forceinline__ void hide(const Queries& queries, const Heads& heads, const Tile& tile, int warp_row, int block,
                                     typename Of::Scores& scores) {
#pragma unroll
  for (int m = 0; m < Of::high; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + m * 16 + half * 8 + fragment_row(), query = tile.place + row, before = block + fragment_column();
      const int first = first_seen(queries, heads, tile, row) - before;
      const int last = (query < tile.keys ? query : tile.keys - 1) - before;
#pragma unroll
      for (int n = 0; n < Of::wide; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c)
          if (n * 8 + c < first || n * 8 + c > last) scores[m][n][half * 2 + c] = unseen_score;
      }
    }
  }
}

/// Scores become weights, not yet divided by their sum, and what was summed is brought to the largest score of now.
template <class Of>
__device__ __forceinline__ void weigh(float f, typename Of::Scores& scores, RowStates<Of>& state, typename Of::Sums& sums) {
#pragma unroll
  for (int m = 0; m < Of::high; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = unseen_score;
#pragma unroll
      for (int n = 0; n < Of::wide; ++n) largest = fmaxf(largest, fmaxf(scores[m][n][half * 2], scores[m][n][half * 2 + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, 2));
      const float before = state.largest[m][half], after = fmaxf(before, largest), shift = -(after * f);
      const float decay = near_two_to(before * f + shift);  // 1 when nothing changes
      state.largest[m][half] = after;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < Of::wide; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[m][n][half * 2 + c];
          score = near_two_to(fmaf(score, f, shift));
          sum += score;
        }
      }
      state.total[m][half] = fmaf(state.total[m][half], decay, sum);
#pragma unroll
      for (int c = 0; c < Of::size / 8; ++c) {
        sums[m][c][half * 2] *= decay;
        sums[m][c][half * 2 + 1] *= decay;
      }
    }
  }
}

/// What is dropped becomes zero; finish() multiplies what is kept.
template <class Of>
__device__ __forceinline__ void drop(Bits<Of::high, Of::wide> kept, typename Of::Weights& weights) {
#pragma unroll
  for (int m = 0; m < Of::high; ++m) {
#pragma unroll
    for (int n = 0; n < Of::wide; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        weights[m][n][half] &= (has<Of::high, Of::wide>(kept, m, n, half * 2) ? 0xFFFFU : 0U) |
                               (has<Of::high, Of::wide>(kept, m, n, half * 2 + 1) ? 0xFFFF0000U : 0U);
      }
    }
  }
}

/// A warp's rows begin at nothing, or at what the result of other keys stands for, a weight of 1 at the score lse.
template <class Of>
__device__ __forceinline__ void start(const ForwardTensors& tensors, const Queries& queries, const Heads& heads, const Tile& tile,
                                      int warp_row, RowStates<Of>& state, typename Of::Sums& sums) {
  const float share = 1 / heads.mask.kept;
#pragma unroll
  for (int m = 0; m < Of::high; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + m * 16 + half * 8 + fragment_row();
      const bool there = tensors.further && row < tile.rows;
      state.largest[m][half] = there ? *lse_of(tensors, queries, heads, tile, row) / heads.scale : lowest;
      state.total[m][half] = there && fragment_column() == 0 ? 1.0F : 0.0F;
      const int column = fragment_column(), room = there ? static_cast<int>(heads.shape.head_size) - column : 0;
      const float* const from = tensors.o.sums(tile.first_row + row, tile.column + column);
#pragma unroll
      for (int n = 0; n < Of::size / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) sums[m][n][half * 2 + c] = n * 8 + c < room ? from[n * 8 + c] * share : 0.0F;
      }
    }
  }
}

/// Divides by the sums of the weights, and stores o and lse. A row that saw no key is left alone.
template <class Of>
__device__ __forceinline__ void finish(const ForwardTensors& tensors, const Queries& queries, const Heads& heads,
                                       const Tile& tile, int warp_row, const RowStates<Of>& state,
                                       const typename Of::Sums& sums) {
#pragma unroll
  for (int m = 0; m < Of::high; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = state.total[m][half];
      total += __shfl_xor_sync(whole_warp, total, 1);
      total += __shfl_xor_sync(whole_warp, total, 2);
      const float inverse = heads.mask.kept / total;
      const int row = warp_row + m * 16 + half * 8 + fragment_row();
      if (row >= tile.rows || first_seen(queries, heads, tile, row) >= tile.keys) continue;
      if (tensors.lse != nullptr && fragment_column() == 0)
        *lse_of(tensors, queries, heads, tile, row) = state.largest[m][half] * heads.scale + logarithm_of_total(total);
#pragma unroll
      for (int n = 0; n < Of::size / 8; ++n) {
        const int column = n * 8 + fragment_column();
        tensors.o.put(tile.first_row + row, tile.column + column, static_cast<int>(heads.shape.head_size) - column,
                      sums[m][n][half * 2] * inverse + 0.0F, sums[m][n][half * 2 + 1] * inverse + 0.0F);
      }
    }
  }
}

template <int size, class Source>
__global__ void __launch_bounds__(Sizes<size>::threads, Sizes<size>::high)
    tensor_forward_kernel(ForwardTensors tensors, Heads heads, Source source, TileOrder order) {
  using Of = Sizes<size>;
  constexpr int high = Of::high, wide = Of::wide, warp_rows = Of::warp_rows;
  auto& shared = shared_memory<ForwardShared<Of>>();
  const TileOrder::Place place = order.at(blockIdx.x);
  const std::int64_t number = place.head / heads.shape.heads;
  const Queries queries = source.at(number);
  const int head_size = static_cast<int>(heads.shape.head_size), count = static_cast<int>(queries.count);
  const int first = static_cast<int>(order.tiles - 1 - place.tile) * tile_rows;
  if (first >= count) return;
  Tile tile;
  tile.head = static_cast<int>(place.head - number * heads.shape.heads);
  tile.column = static_cast<int>(heads.column_of(tile.head));
  tile.kv_column = static_cast<int>(heads.column_of(heads.shape.kv_head_of(tile.head)));
  tile.first_row = queries.first_row + first;
  tile.rows = count - first < tile_rows ? count - first : tile_rows;
  tile.place = static_cast<int>(queries.position) + first;
  tile.keys = static_cast<int>(queries.keys);
  tile.first = first_seen(queries, heads, tile, 0) / block_keys * block_keys;
  tile.end = tile.place + tile.rows < tile.keys ? tile.place + tile.rows : tile.keys;
  if (tile.first >= tile.end) return;

  const auto load = [&](const Queries& of, const Tile& at, int block, int stage) {
    const std::int64_t row = of.key_row(block);
    auto& to = shared.stages[stage].block;
    load_rows<size, block_keys, Of::threads>(to.k, tensors.k, row, at.kv_column, 0, at.keys - block, head_size);
    load_rows<size, block_keys, Of::threads>(to.v, tensors.v, row, at.kv_column, 0, at.keys - block, head_size);
    copies_commit();
  };
  if (threadIdx.x == 0) {
    shared.queries = queries;
    shared.tile = tile;
  }
  load_rows<size, tile_rows, Of::threads>(shared.stages[Of::q_stage].q, tensors.q, tile.first_row, tile.column, 0, tile.rows,
                                          head_size);
  load(queries, tile, tile.first, 0);
  const int warp_row = warp_of_block() * warp_rows, warp_place = tile.place + warp_row;
  RowStates<Of> state;
  typename Of::Sums sums;
  start<Of>(tensors, queries, heads, tile, warp_row, state, sums);
  const int latest = first_seen(queries, heads, tile, warp_row + warp_rows - 1);
  const float f = heads.scale * log2_e;

  copies_wait<0>();
  __syncthreads();
  const typename Of::Rows q(shared.stages[Of::q_stage].q.x + warp_row * row_step<size>);
  int stage = 0;
  const int end = tile.end;
#pragma unroll 1
  for (int block = tile.first; block < end; block += block_keys, stage ^= 1) {
    copies_wait<0>();
    __syncthreads();
    if (block + block_keys < end) load(shared.queries, shared.tile, block + block_keys, stage ^ 1);
    if (warp_row >= shared.tile.rows || block >= warp_place + warp_rows) continue;
    Bits<high, wide> kept = 0;
    if (heads.drops) kept = draw_kept<high, wide, false>(heads, shared.queries.sample, shared.tile.head, warp_place, block);
    typename Of::Scores scores;
    score_product<size, high, wide>(q, shared.stages[stage].block.k.x, scores);
    if (heads.softcap > 0) cap_scores<high, wide>(heads.softcap, scores);
    if (block + block_keys > warp_place + 1 || block + block_keys > shared.tile.keys || latest > block)
      hide<Of>(shared.queries, heads, shared.tile, warp_row, block, scores);
    weigh<Of>(f, scores, state, sums);
    typename Of::Weights weights;
    round_to_pairs<high, wide>(scores, weights);
    if (heads.drops) drop<Of>(kept, weights);
    value_product<size, high, wide>(weights, shared.stages[stage].block.v.x, sums);
  }
  finish<Of>(tensors, shared.queries, heads, shared.tile, warp_row, state, sums);
}

template <class Source>
void start_forward(const Context& context, const ForwardTensors& tensors, const Heads& heads, const Source& source,
                   const TileOrder& order) {
  with_head_size(heads.shape.head_size, [&]<int size>(std::integral_constant<int, size>) {
    using Of = Sizes<size>;
    launch(context, {order.blocks(), Of::threads, sizeof(ForwardShared<Of>)}, &tensor_forward_kernel<size, Source>, tensors,
           heads, source, order);
  });
}

}  // namespace

void tensor_attention_forward(const Context& context, const AttentionForward& call) {
  const AttentionShape& shape = call.shape;
  const std::int64_t size = shape.head_size;
  start_forward(context,
                {head_rows(call.q, size), head_rows(call.k, size), head_rows(call.v, size), result_rows(call.o, size),
                 data_of<float>(call.lse), call.further},
                heads_of(shape, call.dropout), samples_of(shape, call.starts),
                tile_order(div_up(shape.queries, tile_rows), shape.samples * shape.heads, 4 * shape.keys * size));
}

void tensor_attention_forward(const Context& context, const CachedAttention& call) {
  const std::int64_t size = call.shape.head_size;
  const ForwardTensors tensors{
      head_rows(call.q, size), head_rows(call.k, size), head_rows(call.v, size), result_rows(call.o, size), nullptr, false};
  for (std::size_t first = 0; first < call.texts.size(); first += Texts::most) {
    const auto some = call.texts.subspan(first, std::min<std::size_t>(Texts::most, call.texts.size() - first));
    std::int64_t rows = 0, keys = 0;
    for (const CachedText& text : some) {
      rows = std::max(rows, text.rows);
      keys = std::max(keys, text.position + text.rows);
    }
    start_forward(context, tensors, heads_of(call.shape, {}), texts_of(call, some),
                  tile_order(div_up(rows, tile_rows), std::ssize(some) * call.shape.heads, 4 * keys * size));
  }
}

}  // namespace lockstep::ops::cuda
