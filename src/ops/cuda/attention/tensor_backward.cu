// Attention's backward kernels on tensor cores. For dk and dv a tile of keys stays, and queries that see them come by, head by
// head. For dq a tile of queries stays, and keys come by. Both make weights again from lse. The rows that stay are left operands
// of all products, so that weights never leave registers.

#include "ops/cuda/attention/tensor_tile.cuh"
#include "ops/cuda/device/target.cuh"

namespace lockstep::ops::cuda {
namespace {

struct BackwardTensors {
  HeadRows q, k, v, d_o;
  const float *lse, *delta;  // [B*H, T]
  ResultRows sums[2];        // dk and dv, or dq
  bool further;              // results are added to
};

constexpr unsigned tensor_warps = 4, tensor_threads = tensor_warps * warp;

// sm_100's code needs more registers than there are, unless keys of a small head meet half a strip at a time.
constexpr bool halves_strips = target >= 1000;

/// The size of tiles: of keys that stay, or of queries.
template <bool of_keys_, int size_>
struct Sizes {
  static constexpr bool of_keys = of_keys_;
  static constexpr int size = size_;
  static constexpr int high = size == 128 ? 1 : 2;  // fragments of a warp's rows, as many as there are registers for
  static constexpr int strip = 32;                  // rows that come by at a time
  static constexpr int columns = of_keys && size == 64 && halves_strips ? strip / 2 : strip;  // of them, as many as meet at once
  static constexpr int wide = columns / 8, warp_rows = high * 16, rows = warp_rows * static_cast<int>(tensor_warps);
  static constexpr int queries = of_keys ? strip : rows;
  static constexpr int results = of_keys ? 2 : 1;
  using Scores = Fragments<high, wide>;
  using Weights = Pairs<high, wide>;
  using Sums = Fragments<high, size / 8>;
};

/// What queries are to their weights: -lse in bits, the sum of o times its gradient, the first key that is seen.
template <int count>
struct QueryNumbers {
  alignas(8) float shift[count], delta[count];
  int first[count];
};

template <class Of>
struct BackwardShared {
  Strip<Of::size, Of::rows> stay[2];                       // k and v, or q and d_o
  Strip<Of::size, Of::strip> pass[2][2];                   // by stage, the others
  QueryNumbers<Of::queries> numbers[Of::of_keys ? 2 : 1];  // by stage where queries come by
};

/// Rows that stay, and what comes by: rows [begin, end), for each of some heads. Places are counted from key 0.
struct Walk {
  int head = 0, end_head = 0;
  int place = 0, rows = 0;  // of row 0; how many rows are there
  int begin = 0, end = 0;
};

struct Call {
  const BackwardTensors& tensors;
  const Heads& heads;
  const Queries queries;

  __device__ __forceinline__ int position() const { return static_cast<int>(queries.position); }
  __device__ __forceinline__ int query_end() const { return static_cast<int>(queries.end()); }
  __device__ __forceinline__ int keys() const { return static_cast<int>(queries.keys); }
  /// The first key that the query at `place` sees. For a place without a query it is that of the nearest query.
  __device__ __forceinline__ int first_seen(int place) const {
    const int last = query_end() - 1, near = place > last ? last : (place < position() ? position() : place);
    return static_cast<int>(queries.first_seen(near, heads.shape.first_key));
  }
  struct Numbers {
    float shift, delta;
    int first;
  };
  /// A query that is not there has zeros for q and d_o, which any finite weight leaves zero.
  __device__ __forceinline__ Numbers numbers(int head, int place) const {
    const bool there = place >= position() && place < query_end();
    const std::int64_t at = (queries.sample * heads.shape.heads + head) * queries.count + place - position();
    return {there ? -tensors.lse[at] * log2_e : 0.0F, there ? tensors.delta[at] : 0.0F, first_seen(place)};
  }
  template <int size, int rows>
  __device__ __forceinline__ void load_queries(Strip<size, rows> (&to)[2], int head, int place) const {
    const int begin = position() - place, end = query_end() - place, head_size = static_cast<int>(heads.shape.head_size);
    const std::int64_t row = queries.first_row - begin, column = heads.column_of(head);
    load_rows<size, rows, tensor_threads>(to[0], tensors.q, row, column, begin, end, head_size);
    load_rows<size, rows, tensor_threads>(to[1], tensors.d_o, row, column, begin, end, head_size);
  }
  template <int size, int rows>
  __device__ __forceinline__ void load_keys(Strip<size, rows> (&to)[2], int head, int place) const {
    const int head_size = static_cast<int>(heads.shape.head_size);
    const std::int64_t row = queries.first_key + place, column = heads.column_of(heads.shape.kv_head_of(head));
    load_rows<size, rows, tensor_threads>(to[0], tensors.k, row, column, 0, keys() - place, head_size);
    load_rows<size, rows, tensor_threads>(to[1], tensors.v, row, column, 0, keys() - place, head_size);
  }
};

/// A warp's rows and columns of a strip: of which head, where, and where they lie in shared memory.
template <class Of>
struct Block {
  int head, place, pass;
  const BFloat16 *stay[2], *strip[2];
  const QueryNumbers<Of::queries>& numbers;
  int first_number;
  /// Which of the numbers are those of an element's query.
  __device__ __forceinline__ int number(int row, int column) const { return first_number + (Of::of_keys ? column : row); }
  __device__ __forceinline__ int last_number() const { return first_number + (Of::of_keys ? Of::columns : Of::warp_rows) - 1; }
};

/// What a query does not see gets no weight.
template <class Of>
__device__ __forceinline__ void hide(int keys, const Block<Of>& block, typename Of::Scores& scores,
                                     typename Of::Scores& d_weights) {
  for_fragments<Of::high, Of::wide>([&](int m, int n, int e, int row, int column) {
    const int key = Of::of_keys ? block.place + row : block.pass + column;
    const int query = Of::of_keys ? block.pass + column : block.place + row;
    if (key <= query && key < keys && key >= block.numbers.first[block.number(row, column)]) return;
    scores[m][n][e] = unseen_score;
    d_weights[m][n][e] = 0;
  });
}

/// scores become weights, and d_weights, the product of d_o and v, the gradient of scores. `plain`: none is dropped and scores
/// are not capped.
template <class Of, bool plain>
__device__ __forceinline__ void weigh(const Heads& heads, const Block<Of>& block, Bits<Of::high, Of::wide> kept,
                                      typename Of::Scores& scores, typename Of::Scores& d_weights) {
  const float f = heads.scale * log2_e, uncapped = heads.softcap > 0 ? 1 / heads.softcap : 0.0F;
  for_fragments<Of::high, Of::wide>([&](int m, int n, int e, int row, int column) {
    const int number = block.number(row, column);
    const float score = scores[m][n][e], weight = near_two_to(fmaf(score, f, block.numbers.shift[number]));
    const float delta = block.numbers.delta[number];
    if constexpr (plain) {
      scores[m][n][e] = weight;
      d_weights[m][n][e] = weight * (d_weights[m][n][e] - delta);
    } else {
      const float factor = has<Of::high, Of::wide>(kept, m, n, e) ? heads.mask.kept : 0.0F;
      const float tanh = uncapped > 0 ? fmaxf(score * uncapped, -1.0F) : 0.0F;
      scores[m][n][e] = weight * factor;
      d_weights[m][n][e] = weight * (d_weights[m][n][e] * factor - delta) * fmaf(-tanh, tanh, 1.0F);
    }
  });
}

/// Adds the products of a warp's rows and what meets them. The first sums get gradients of scores times q or k, the second
/// weights times d_o.
template <class Of>
__device__ __forceinline__ void add_block(const Call& call, const Block<Of>& block, typename Of::Sums (&sums)[Of::results]) {
  constexpr int size = Of::size, high = Of::high, wide = Of::wide;
  const Heads& heads = call.heads;
  Bits<high, wide> kept = ~Bits<high, wide>{0};
  if (heads.drops) kept = draw_kept<high, wide, Of::of_keys>(heads, call.queries.sample, block.head, block.place, block.pass);
  typename Of::Scores scores, d_weights;
  score_product<size, high, wide>(SharedRows<size, high>(block.stay[0]), block.strip[0], scores);
  if (heads.softcap > 0) cap_scores<high, wide>(heads.softcap, scores);
  score_product<size, high, wide>(SharedRows<size, high>(block.stay[1]), block.strip[1], d_weights);
  const int first_key = Of::of_keys ? block.place : block.pass, first_query = Of::of_keys ? block.pass : block.place;
  const int end_key = first_key + (Of::of_keys ? Of::warp_rows : Of::columns);
  if (end_key > first_query + 1 || end_key > call.keys() || block.numbers.first[block.last_number()] > first_key)
    hide<Of>(call.keys(), block, scores, d_weights);
  if (heads.drops || heads.softcap > 0) {
    weigh<Of, false>(heads, block, kept, scores, d_weights);
  } else {
    weigh<Of, true>(heads, block, kept, scores, d_weights);
  }
  typename Of::Weights rounded;
  if constexpr (Of::of_keys) {
    round_to_pairs<high, wide>(scores, rounded);
    value_product<size, high, wide>(rounded, block.strip[1], sums[1]);
  }
  round_to_pairs<high, wide>(d_weights, rounded);
  value_product<size, high, wide>(rounded, block.strip[0], sums[0]);
}

/// Stores a warp's rows, or adds them to what is there.
template <class Of>
__device__ __forceinline__ void finish(const ResultRows& to, bool further, const Heads& heads, std::int64_t first_row,
                                       std::int64_t first_column, int rows, float scale, const typename Of::Sums& sums) {
#pragma unroll
  for (int m = 0; m < Of::high; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + fragment_row();
      if (row >= rows) continue;
#pragma unroll
      for (int n = 0; n < Of::size / 8; ++n) {
        const int column = n * 8 + fragment_column(), room = static_cast<int>(heads.shape.head_size) - column;
        if (room <= 0) continue;
        float before[2] = {};
        for (int c = 0; c < 2; ++c)
          if (further && c < room) before[c] = to.sums(first_row + row, first_column + column)[c];
        to.put(first_row + row, first_column + column, room, fmaf(sums[m][n][half * 2], scale, before[0]) + 0.0F,
               fmaf(sums[m][n][half * 2 + 1], scale, before[1]) + 0.0F);
      }
    }
  }
}

/// Finds the queries that come by a tile of keys. The first one sees one of the keys. The last one is the last whose document has
/// one of the keys.
template <class Of>
__device__ __forceinline__ void find_queries(const Call& call, Walk& walk) {
  const int from = call.position() > walk.place ? call.position() : walk.place;
  walk.begin = from / Of::strip * Of::strip;
  walk.end = call.query_end();
  if (call.queries.starts == nullptr) return;
  int low = from;
  while (low < walk.end) {
    const int middle = low + (walk.end - low) / 2;
    if (call.first_seen(middle) >= walk.place + Of::rows) {
      walk.end = middle;
    } else {
      low = middle + 1;
    }
  }
}

/// The rows that stay go through all that comes by, and leave the sums.
template <class Of>
__device__ __forceinline__ void walk_through(const Call& call, const Walk& walk, BackwardShared<Of>& shared,
                                             typename Of::Sums (&sums)[Of::results]) {
  constexpr int strip = Of::strip;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp_row = warp_of_block() * Of::warp_rows, warp_place = walk.place + warp_row;
  typename Call::Numbers ahead{};
  const auto load = [&](int head, int place, int stage) {
    if constexpr (Of::of_keys) {
      call.load_queries<Of::size, strip>(shared.pass[stage], head, place);
      if (thread < strip) ahead = call.numbers(head, place + thread);
    } else {
      call.load_keys<Of::size, strip>(shared.pass[stage], head, place);
    }
    copies_commit();
  };
  const auto keep_numbers = [&](const typename Call::Numbers& of, QueryNumbers<Of::queries>& to) {
    if (thread >= Of::queries) return;
    to.shift[thread] = of.shift;
    to.delta[thread] = of.delta;
    to.first[thread] = of.first;
  };
  if constexpr (Of::of_keys) {
    call.load_keys<Of::size, Of::rows>(shared.stay, walk.head, walk.place);
  } else {
    call.load_queries<Of::size, Of::rows>(shared.stay, walk.head, walk.place);
    keep_numbers(call.numbers(walk.head, walk.place + thread), shared.numbers[0]);
  }
  int head = walk.head, place = walk.begin, stage = 0;
  load(head, place, stage);
  const int from = warp_row * row_step<Of::size>;
#pragma unroll 1
  while (head < walk.end_head) {
    QueryNumbers<Of::queries>& numbers = shared.numbers[Of::of_keys ? stage : 0];
    if (Of::of_keys) keep_numbers(ahead, numbers);
    copies_wait<0>();
    __syncthreads();
    const int of_head = head, pass = place;
    const Strip<Of::size, strip>(&strips)[2] = shared.pass[stage];
    place += strip;
    if (place >= walk.end) {
      place = walk.begin;
      ++head;
    }
    stage ^= 1;
    if (head < walk.end_head) load(head, place, stage);
    const bool sees = Of::of_keys ? pass + strip > warp_place : pass < warp_place + Of::warp_rows;
    if (warp_row >= walk.rows || !sees) continue;
#pragma unroll 1
    for (int column = 0; column < strip; column += Of::columns) {
      const int row = column * row_step<Of::size>;
      const Block<Of> block{of_head,
                            warp_place,
                            pass + column,
                            {shared.stay[0].x + from, shared.stay[1].x + from},
                            {strips[0].x + row, strips[1].x + row},
                            numbers,
                            Of::of_keys ? column : warp_row};
      add_block<Of>(call, block, sums);
    }
  }
}

/// Heads that share keys, as many such parts as a kernel is given by value: gradients of keys and values.
template <int size>
__global__ void __launch_bounds__(tensor_threads, 2)
    tensor_keys_kernel(BackwardTensors tensors, Heads heads, Samples samples, HeadParts all, TileOrder order) {
  using Of = Sizes<true, size>;
  auto& shared = shared_memory<BackwardShared<Of>>();
  const TileOrder::Place at = order.at(blockIdx.x);
  const std::int64_t parts = order.heads / samples.shape.samples, sample = at.head / parts, number = at.head - sample * parts;
  const Call call{tensors, heads, samples.at(sample)};
  const HeadPart part = all.of[number];
  Walk walk{.head = static_cast<int>(part.first), .end_head = static_cast<int>(part.first + part.count)};
  walk.place = static_cast<int>(at.tile) * Of::rows;
  walk.rows = call.keys() - walk.place < Of::rows ? call.keys() - walk.place : Of::rows;
  find_queries<Of>(call, walk);
  typename Of::Sums sums[2] = {};
  if (walk.begin < walk.end) walk_through<Of>(call, walk, shared, sums);
  const int warp_row = warp_of_block() * Of::warp_rows;
  const std::int64_t row = call.queries.first_key + walk.place + warp_row, column = heads.column_of(all.first + number);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    finish<Of>(tensors.sums[i], tensors.further, heads, row, column, walk.rows - warp_row, i == 0 ? heads.scale : 1.0F, sums[i]);
  }
}

template <int size>
__global__ void __launch_bounds__(tensor_threads, 2)
    tensor_queries_kernel(BackwardTensors tensors, Heads heads, Samples samples, TileOrder order) {
  using Of = Sizes<false, size>;
  auto& shared = shared_memory<BackwardShared<Of>>();
  const TileOrder::Place at = order.at(blockIdx.x);
  const std::int64_t sample = at.head / heads.shape.heads, head = at.head - sample * heads.shape.heads;
  const Call call{tensors, heads, samples.at(sample)};
  const int first = static_cast<int>(order.tiles - 1 - at.tile) * Of::rows;
  Walk walk{.head = static_cast<int>(head), .end_head = static_cast<int>(head) + 1};
  walk.place = call.position() + first;
  const int left = call.query_end() - walk.place;
  walk.rows = left < Of::rows ? left : Of::rows;
  walk.begin = call.first_seen(walk.place) / Of::strip * Of::strip;
  walk.end = walk.place + walk.rows < call.keys() ? walk.place + walk.rows : call.keys();
  typename Of::Sums sums[1] = {};
  if (walk.begin < walk.end) walk_through<Of>(call, walk, shared, sums);
  const int warp_row = warp_of_block() * Of::warp_rows;
  finish<Of>(tensors.sums[0], tensors.further, heads, call.queries.first_row + first + warp_row, heads.column_of(head),
             walk.rows - warp_row, heads.scale, sums[0]);
}

BackwardTensors tensors_of(const AttentionBackward& call, const Tensor& first, const Tensor& second) {
  const std::int64_t size = call.shape.head_size;
  return {head_rows(call.q, size),
          head_rows(call.k, size),
          head_rows(call.v, size),
          head_rows(call.d_o, size),
          data_of<const float>(call.lse),
          data_of<const float>(call.delta),
          {result_rows(first, size), result_rows(second, size)},
          call.further};
}

}  // namespace

void tensor_attention_queries_backward(const Context& context, const AttentionBackward& call) {
  const AttentionShape& shape = call.shape;
  with_head_size(shape.head_size, [&]<int size>(std::integral_constant<int, size>) {
    using Of = Sizes<false, size>;
    const TileOrder order =
        tile_order(div_up(shape.queries, Of::rows), shape.samples * shape.heads, 4 * shape.keys * shape.head_size);
    launch(context, {order.blocks(), tensor_threads, sizeof(BackwardShared<Of>)}, &tensor_queries_kernel<size>,
           tensors_of(call, call.dq, call.dq), heads_of(shape, call.dropout), samples_of(shape, call.starts), order);
  });
}

void tensor_attention_keys_backward(const Context& context, const AttentionBackward& call, std::span<const HeadPart> head_parts,
                                    const Tensor& dk, const Tensor& dv) {
  const AttentionShape& shape = call.shape;
  for (std::size_t first = 0; first < head_parts.size(); first += HeadParts::most) {
    const auto some = head_parts.subspan(first, std::min<std::size_t>(HeadParts::most, head_parts.size() - first));
    HeadParts all{.first = static_cast<std::int64_t>(first), .of = {}};
    std::ranges::copy(some, all.of);
    with_head_size(shape.head_size, [&]<int size>(std::integral_constant<int, size>) {
      using Of = Sizes<true, size>;
      const TileOrder order = tile_order(div_up(shape.keys, Of::rows), shape.samples * std::ssize(some),
                                         4 * shape.queries * shape.head_size * some.front().count);
      launch(context, {order.blocks(), tensor_threads, sizeof(BackwardShared<Of>)}, &tensor_keys_kernel<size>,
             tensors_of(call, dk, dv), heads_of(shape, call.dropout), samples_of(shape, call.starts), all, order);
    });
  }
}

}  // namespace lockstep::ops::cuda
