#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/product/thin.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "ops/cpu/isa.h"
#include "ops/cpu/product/pack.h"
#include "ops/cpu/product/pairs-inl.h"
#include "ops/cpu/product/thin.h"
#include "ops/cpu/product/tiles.h"
#include "ops/cpu/product/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

// chain[i] += a[i][word] * column for every row, of words as Add takes them.
template <int rows, class Add, class D, class V = hn::Vec<D>>
HWY_INLINE void AddProducts(D d, const ThinStep& step, std::int64_t word, V column, V* chain) {
  HWY_UNROLL(8)
  for (int i = 0; i < rows; ++i) chain[i] = Add::add(d, hn::Set(d, step.a[i * step.a_stride + word]), column, chain[i]);
}

// Rows of floats, or of bf16 that is widened; a holds floats.
template <class T>
struct Floats {
  using Element = T;
  using Add = AddFloats;
  static constexpr std::int64_t depth = 1;  // k in a word of a
  // The elements in a word of every column, from k on.
  template <int rows, class D, class V = hn::Vec<D>>
  static HWY_INLINE void add(D d, const ThinStep& step, std::int64_t k, V word, V* chain) {
    AddProducts<rows, Add>(d, step, k, ElementOf<T, 0>(d, word), chain);
    if constexpr (sizeof(T) == 2) AddProducts<rows, Add>(d, step, k + 1, ElementOf<T, 1>(d, word), chain);
  }
  static HWY_INLINE float word(const T* from, std::int64_t) { return Widened(*from); }
};

// Rows of bf16; a holds words of two.
template <class How>
struct Pairs {
  using Element = BFloat16;
  using Add = How;
  static constexpr std::int64_t depth = 2;
  template <int rows, class D, class V = hn::Vec<D>>
  static HWY_INLINE void add(D d, const ThinStep& step, std::int64_t k, V word, V* chain) {
    AddProducts<rows, Add>(d, step, k / 2, word, chain);
  }
  static HWY_INLINE float word(const BFloat16* from, std::int64_t left) {
    return WordOf(from[0], left > 1 ? from[1] : BFloat16{});
  }
};

// Blocks of k are added in order to their columns' sums, which the first one of all begins; at most `columns` of them.
template <int rows, int chains, int blocks, class D, class V = hn::Vec<D>>
HWY_INLINE void StoreChains(D d, const V (*chain)[rows], bool first, float* to, std::int64_t columns) {
  constexpr std::int64_t lanes = hn::MaxLanes(D());
  HWY_UNROLL(4)
  for (int c = 0; c < chains; ++c) {
    if (c / blocks * lanes >= columns) return;
    HWY_UNROLL(8)
    for (int i = 0; i < rows; ++i) {
      float* sums = to + i * ThinStep::panel + c / blocks * lanes;
      const bool start = first && c % blocks == 0;
      hn::StoreU(start ? chain[c][i] : hn::Add(hn::LoadU(d, sums), chain[c][i]), d, sums);
    }
  }
}

// The memory that a part is followed by: the same shape at rows[j] + offset. It is fetched row by row, as it lies in memory. In
// the order in which columns use it, it would come at half the speed.
template <class T>
struct NextPart {
  const T* const* rows;
  std::int64_t offset;
};

// Fetches some lines of the next part, as many as step `word` of a part's loop uses itself.
template <std::int64_t columns, int blocks, class T>
HWY_INLINE void Fetch(const NextPart<T>& next, std::int64_t word) {
  constexpr std::int64_t line = 64 / sizeof(T), run = blocks * k_block / line, each = columns * blocks / 4, steps = run / each;
  const T* from = next.rows[word / steps] + next.offset + word % steps * each * line;
  HWY_UNROLL(8)
  for (std::int64_t i = 0; i < each; ++i) __builtin_prefetch(from + i * line, 0, 3);
}

// Takes `blocks` blocks of k from `first` on, and `groups` vectors of columns at rows 0, `lanes`, ... of b. Each row of `a` has
// blocks * groups independent chains. Only one block may be shorter than k_block.
template <int rows, int groups, int blocks, class Form, class D, class T = typename Form::Element, class V = hn::Vec<D>>
HWY_INLINE void ThinPart(D d, const ThinStep& step, const T* const* b, std::int64_t first, const NextPart<T>& next, float* to) {
  constexpr std::int64_t depth = word_depth<T>, lanes = hn::MaxLanes(D());
  constexpr int chains = groups * blocks;
  const std::int64_t count = std::min(step.k - first, k_block);
  V chain[chains][rows];
  HWY_UNROLL(4)
  for (int c = 0; c < chains; ++c) {
    HWY_UNROLL(8)
    for (int i = 0; i < rows; ++i) chain[c][i] = hn::Zero(d);
  }
  std::int64_t done = 0;
  for (; done + depth <= count; done += depth) {
    Fetch<groups * lanes, blocks>(next, done / depth);
    HWY_UNROLL(4)
    for (int c = 0; c < chains; ++c) {
      const std::int64_t k = first + c % blocks * k_block + done;
      V words[4];
      LoadFourWords(d, b + c / blocks * lanes, k, words);
      HWY_UNROLL(4)
      for (int s = 0; s < 4; ++s) Form::template add<rows>(d, step, k + s * (depth / 4), words[s], chain[c]);
    }
  }
  for (; done < count; done += Form::depth) {
    HWY_UNROLL(4)
    for (int c = 0; c < chains; ++c) {
      const std::int64_t k = first + c % blocks * k_block + done;
      HWY_ALIGN float column[lanes];
      for (std::int64_t j = 0; j < lanes; ++j) column[j] = Form::word(b[c / blocks * lanes + j] + k, count - done);
      AddProducts<rows, typename Form::Add>(d, step, k / Form::depth, hn::Load(d, column), chain[c]);
    }
  }
  StoreChains<rows, chains, blocks>(d, chain, first == 0, to, groups * lanes);
}

// All columns, k from `first` to `end`, `blocks` blocks at a time.
template <int rows, int groups, int blocks, class Form, class D, class T = typename Form::Element>
HWY_INLINE void ThinBlocks(D d, const ThinStep& step, const T* const* b, std::int64_t first, std::int64_t end) {
  constexpr std::int64_t columns = groups * static_cast<std::int64_t>(hn::MaxLanes(D()));
  for (std::int64_t j = 0; j < step.columns; j += columns) {
    for (std::int64_t k = first; k < end; k += blocks * k_block) {
      NextPart<T> next{b, end < step.k ? end : step.next};
      if (j + columns < step.columns) next = {b + j + columns, first};
      if (k + blocks * k_block < end) next = {b + j, k + blocks * k_block};
      ThinPart<rows, groups, blocks, Form>(d, step, b + j, k, next, step.to + j);
    }
  }
}

// As many chains as fit the registers: one alone would wait for its own latency. Chains are blocks of k of the same columns where
// there are several blocks, else more columns. Rows whose stride is a power of two share few sets of the cache.
template <int rows>
constexpr int chains_of = rows <= 2   ? 4
                          : rows <= 4 ? 2
                                      : 1;

template <int rows, class Form>
void ThinRows(const ThinStep& step) {
  using T = typename Form::Element;
  const hn::CappedTag<float, 8> d;
  constexpr int chains = chains_of<rows>;
  // Columns that are missing repeat the last one; their sums are not read.
  const T* b[ThinStep::panel];
  for (std::int64_t j = 0; j < ThinStep::panel; ++j)
    b[j] = static_cast<const T*>(step.b) + std::min(j, step.columns - 1) * step.b_stride;
  const std::int64_t whole = step.k / (chains * k_block) * chains * k_block;
  if (whole > 0) ThinBlocks<rows, 1, chains, Form>(d, step, b, 0, whole);
  for (std::int64_t first = whole; first < step.k; first += k_block)
    ThinBlocks<rows, chains, 1, Form>(d, step, b, first, std::min(step.k, first + k_block));
}

// How far before their use words of a tile are asked for. With several rows a processor does not run that far ahead by itself.
constexpr std::int64_t words_ahead = 64;

// Columns in tiles. A tile is one stream.
template <int rows, class Form>
void ThinTiles(const ThinStep& step) {
  using T = typename Form::Element;
  const hn::CappedTag<float, 8> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<float, 8>());
  constexpr std::int64_t each = word_depth<T> / 4;  // k in a word
  constexpr int chains = chains_of<rows>;
  for (std::int64_t j = 0; j < step.columns; j += chains * lanes) {
    const float* words[chains];
    for (int c = 0; c < chains; ++c) {
      const std::int64_t column = std::min(j + c * lanes, step.columns - lanes), inside = column % tile_columns;
      words[c] = reinterpret_cast<const float*>(static_cast<const T*>(step.b) + (column - inside) * step.b_stride) + inside;
    }
    for (std::int64_t block = 0; block < step.k; block += k_block) {
      const std::int64_t end = std::min(step.k, block + k_block) / each;
      V chain[chains][rows];
      HWY_UNROLL(4)
      for (int c = 0; c < chains; ++c) {
        HWY_UNROLL(8)
        for (int i = 0; i < rows; ++i) chain[c][i] = hn::Zero(d);
      }
      for (std::int64_t w = block / each; w < end; ++w) {
        HWY_UNROLL(4)
        for (int c = 0; c < chains; ++c) __builtin_prefetch(words[c] + (w + words_ahead) * tile_columns);
        HWY_UNROLL(4)
        for (int c = 0; c < chains; ++c)
          Form::template add<rows>(d, step, w * each, hn::LoadU(d, words[c] + w * tile_columns), chain[c]);
      }
      StoreChains<rows, chains, 1>(d, chain, block == 0, step.to + j, step.columns - j);
    }
  }
}

template <int rows, class Form>
void Thin(const ThinStep& step) {
  return step.tiled ? ThinTiles<rows, Form>(step) : ThinRows<rows, Form>(step);
}

template <class Form, int... counts>
void ThinOf(std::integer_sequence<int, counts...>, const ThinStep& step) {
  constexpr std::array<ThinKernel, sizeof...(counts)> kernels{&Thin<counts + 1, Form>...};
  kernels[static_cast<std::size_t>(step.rows - 1)](step);
}

constexpr std::make_integer_sequence<int, ThinStep::most_rows> counts;

void ThinAny(const ThinStep& step) {
  return step.type == DType::bf16 ? ThinOf<Floats<BFloat16>>(counts, step) : ThinOf<Floats<float>>(counts, step);
}

// Null where there is no AVX-512.
ThinKernel PairThin() {
  if constexpr (hn::MaxLanes(hn::CappedTag<float, 16>()) == 16) {
    return [](const ThinStep& step) { ThinOf<Pairs<AddPairs>>(counts, step); };
  } else {
    return nullptr;
  }
}

// A function of its own, so that no addition leaves the time of FlushedDenormals.
HWY_NOINLINE void EmulatedBlock(ThinStep step) {
  for (std::int64_t i = 0; i < step.rows; ++i, step.a += step.a_stride, step.to += ThinStep::panel)
    Thin<1, Pairs<AddPairsEmulated>>(step);
}

void EmulatedThin(const ThinStep& step) {
  HWY_ALIGN float block[ThinStep::most_rows * ThinStep::panel];
  for (std::int64_t k = 0; k < step.k; k += k_block) {
    ThinStep part = step;
    part.a += k / 2;
    part.b = static_cast<const BFloat16*>(step.b) + k * (step.tiled ? tile_columns : 1);
    part.k = std::min(k_block, step.k - k);
    part.to = block;
    part.next = 0;
    {
      const FlushedDenormals flushed;
      EmulatedBlock(part);
    }
    for (std::int64_t i = 0; i < step.rows; ++i) {
      for (std::int64_t j = i * ThinStep::panel; j < i * ThinStep::panel + step.columns; ++j)
        step.to[j] = k == 0 ? block[j] : step.to[j] + block[j];
    }
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {
HWY_EXPORT(ThinAny);
HWY_EXPORT(PairThin);
HWY_EXPORT(EmulatedThin);
}  // namespace

ThinKernel thin_kernel_for(Isa isa) {
  const ScopedIsa scope(isa);
  return &HWY_DYNAMIC_DISPATCH(ThinAny);
}

ThinKernel bf16_thin_kernel_for(Isa isa, Bf16Way way) {
  if constexpr (HWY_ARCH_X86 != 0) {
    if (way == Bf16Way::amx) return &thin_amx;
  }
  if (way == Bf16Way::emulated_amx) return nullptr;
  const ScopedIsa scope(isa);
  return way == Bf16Way::pairs ? HWY_DYNAMIC_DISPATCH(PairThin)() : &HWY_DYNAMIC_DISPATCH(EmulatedThin);
}

}  // namespace lockstep::ops::cpu
#endif
