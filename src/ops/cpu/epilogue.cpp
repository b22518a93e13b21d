#include "ops/cpu/epilogue.h"

#include <algorithm>
#include <cstdint>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/epilogue.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include <hwy/cache_control.h>
// clang-format on

#include "ops/cpu/simd/storage-inl.h"
#include "ops/cpu/simd/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

template <Activation f, class D, class V = hn::Vec<D>>
HWY_INLINE V Activate(D d, V x) {
  if constexpr (f == Activation::gelu) return Gelu(d, x);
  if constexpr (f == Activation::gelu_tanh) return GeluTanh(d, x);
  if constexpr (f == Activation::relu) return hn::Max(hn::Zero(d), x);
  if constexpr (f == Activation::silu) return Silu(d, x);
  if constexpr (f == Activation::none) return x;
}

// f(x), and in `slope` f'(x).
template <Activation f, class D, class V = hn::Vec<D>>
HWY_INLINE V ActivateWithSlope(D d, V x, V& slope) {
  if constexpr (f == Activation::gelu) return GeluWithGrad(d, x, slope);
  if constexpr (f == Activation::gelu_tanh) return GeluTanhWithGrad(d, x, slope);
  if constexpr (f == Activation::silu) return SiluWithGrad(d, x, slope);
  const V one = hn::Set(d, 1.0F);
  slope = f == Activation::relu ? hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), one) : one;
  return Activate<f>(d, x);
}

template <class S>
HWY_INLINE S* RowOf(const Rows& rows, std::int64_t row, std::int64_t column) {
  return rows.data == nullptr ? nullptr : reinterpret_cast<S*>(rows.data) + row * rows.stride + column;
}

// One row's pointers; null where there is nothing.
template <class S>
struct ForwardPlace {
  const float* from;
  const S *bias, *gate, *residual;
  S *y, *pre;
};

template <Activation f, class D, class S>
HWY_INLINE void ForwardVector(D d, const ForwardPlace<S>& at, std::int64_t i) {
  auto v = hn::LoadU(d, at.from + i);
  if (at.bias != nullptr) v = hn::Add(v, LoadAs(d, at.bias + i));
  if (f != Activation::none || at.gate != nullptr || at.pre != nullptr) v = AsStored<S>(d, v);
  if (at.pre != nullptr) StoreAs(d, v, at.pre + i);
  v = at.gate != nullptr ? hn::Mul(Activate<f>(d, LoadAs(d, at.gate + i)), v) : Activate<f>(d, v);
  if (at.residual != nullptr) v = hn::Add(v, LoadAs(d, at.residual + i));
  StoreAs(d, v, at.y + i);
}

// The columns that fill no vector take a way through memory that does.
template <Activation f, class D, class S>
HWY_INLINE void ForwardTail(D d, const ForwardPlace<S>& at, std::int64_t i, std::int64_t columns) {
  HWY_ALIGN float from[16] = {};
  HWY_ALIGN S bias[16] = {}, gate[16] = {}, residual[16] = {}, y[16], pre[16];
  std::copy(at.from + i, at.from + columns, from);
  if (at.bias != nullptr) std::copy(at.bias + i, at.bias + columns, bias);
  if (at.gate != nullptr) std::copy(at.gate + i, at.gate + columns, gate);
  if (at.residual != nullptr) std::copy(at.residual + i, at.residual + columns, residual);
  const ForwardPlace<S> aside{
      from, at.bias == nullptr ? nullptr : bias, at.gate == nullptr ? nullptr : gate, at.residual == nullptr ? nullptr : residual,
      y,    at.pre == nullptr ? nullptr : pre};
  ForwardVector<f>(d, aside, 0);
  std::copy(y, y + (columns - i), at.y + i);
  if (at.pre != nullptr) std::copy(pre, pre + (columns - i), at.pre + i);
}

template <Activation f, class S>
void FinishForward(const void* context, const Area& area, const float* from, std::int64_t stride) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto& to = *static_cast<const ForwardContext*>(context);
  for (std::int64_t row = 0; row < area.rows; ++row) {
    const std::int64_t r = area.row + row;
    const ForwardPlace<S> at{from + row * stride,
                             RowOf<S>(to.bias, 0, area.column),
                             RowOf<S>(to.gate, r, area.column),
                             RowOf<S>(to.residual, r, area.column),
                             RowOf<S>(to.y, r, area.column),
                             RowOf<S>(to.pre_activation, r, area.column)};
    std::int64_t i = 0;
    for (; i + lanes <= area.columns; i += lanes) ForwardVector<f>(d, at, i);
    if (i < area.columns) ForwardTail<f>(d, at, i, area.columns);
  }
}

template <class S>
struct InputPlace {
  const float* from;
  const S *pre, *gate;
  S *dx, *d_gate, *activated;
  bool stream;
};

template <class D, class S, class V = hn::Vec<D>>
HWY_INLINE void StoreGradient(D d, V value, S* to, bool stream) {
  stream ? StreamAs(d, value, to) : StoreAs(d, value, to);
}

template <Activation f, class D, class S>
HWY_INLINE void InputVector(D d, const InputPlace<S>& at, std::int64_t i) {
  auto slope = hn::Zero(d);
  if (at.gate != nullptr) {
    const auto up = LoadAs(d, at.pre + i), gradient = hn::LoadU(d, at.from + i);
    const auto gate = ActivateWithSlope<f>(d, LoadAs(d, at.gate + i), slope);
    StoreGradient(d, hn::Mul(hn::Mul(gradient, up), slope), at.d_gate + i, at.stream);
    StoreGradient(d, hn::Mul(gradient, gate), at.dx + i, at.stream);
    if (at.activated != nullptr) StoreAs(d, hn::Mul(gate, up), at.activated + i);
    return;
  }
  const auto value = ActivateWithSlope<f>(d, LoadAs(d, at.pre + i), slope);
  StoreGradient(d, hn::Mul(hn::LoadU(d, at.from + i), slope), at.dx + i, at.stream);
  if (at.activated != nullptr) StoreAs(d, value, at.activated + i);
}

template <Activation f, class D, class S>
HWY_INLINE void InputTail(D d, const InputPlace<S>& at, std::int64_t i, std::int64_t columns) {
  HWY_ALIGN float from[16] = {};
  HWY_ALIGN S pre[16] = {}, gate[16] = {}, dx[16], d_gate[16], activated[16];
  std::copy(at.from + i, at.from + columns, from);
  std::copy(at.pre + i, at.pre + columns, pre);
  if (at.gate != nullptr) std::copy(at.gate + i, at.gate + columns, gate);
  InputVector<f>(d, InputPlace<S>{from, pre, at.gate == nullptr ? nullptr : gate, dx, d_gate, activated, false}, 0);
  if (at.gate != nullptr) std::copy(d_gate, d_gate + (columns - i), at.d_gate + i);
  std::copy(dx, dx + (columns - i), at.dx + i);
  if (at.activated != nullptr) std::copy(activated, activated + (columns - i), at.activated + i);
}

template <Activation f, class S>
void FinishInput(const void* context, const Area& area, const float* from, std::int64_t stride) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto& to = *static_cast<const InputContext*>(context);
  const bool stream = to.stream && static_cast<std::size_t>(area.column) * sizeof(S) % cache_line == 0;
  for (std::int64_t row = 0; row < area.rows; ++row) {
    const std::int64_t r = area.row + row;
    const InputPlace<S> at{from + row * stride,
                           RowOf<S>(to.pre_activation, r, area.column),
                           RowOf<S>(to.gate, r, area.column),
                           RowOf<S>(to.dx, r, area.column),
                           RowOf<S>(to.d_gate, r, area.column),
                           RowOf<S>(to.activated, r, area.column),
                           stream};
    std::int64_t i = 0;
    for (; i + lanes <= area.columns; i += lanes) InputVector<f>(d, at, i);
    if (i < area.columns) InputTail<f>(d, at, i, area.columns);
  }
  if (stream) hwy::FlushStream();
}

constexpr std::int64_t bias_rows = 64;
static_assert(k_block % bias_rows == 0, "a product hands over whole blocks");

// `vectors` times a vector of columns: the sum of each block of rows in registers, then onto the sums.
template <int vectors, class S, class D, class V = hn::Vec<D>>
HWY_INLINE void SumColumns(D d, const S* from, std::int64_t stride, std::int64_t rows, float* sums, bool add) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t block = 0; block < rows; block += bias_rows) {
    V sum[vectors];
    HWY_UNROLL(8)
    for (int v = 0; v < vectors; ++v) sum[v] = hn::Zero(d);
    const std::int64_t end = std::min(rows, block + bias_rows);
    for (std::int64_t row = block; row < end; ++row) {
      HWY_UNROLL(8)
      for (int v = 0; v < vectors; ++v) sum[v] = hn::Add(sum[v], LoadAs(d, from + row * stride + v * lanes));
    }
    HWY_UNROLL(8)
    for (int v = 0; v < vectors; ++v) {
      if (add || block > 0) sum[v] = hn::Add(hn::LoadU(d, sums + v * lanes), sum[v]);
      hn::StoreU(sum[v], d, sums + v * lanes);
    }
  }
}

// `sum` and the rows of a vector of columns, which load(row) gives. Four blocks side by side, for a chain of additions waits.
template <class D, class Load, class V = hn::Vec<D>>
HWY_INLINE V SumOfRows(D d, const Load& load, std::int64_t rows, V sum, bool add) {
  constexpr std::int64_t side = 4;
  std::int64_t block = 0;
  for (; block + side * bias_rows <= rows; block += side * bias_rows) {
    V blocks[side];
    HWY_UNROLL(4)
    for (int b = 0; b < side; ++b) blocks[b] = hn::Zero(d);
    for (std::int64_t row = block; row < block + bias_rows; ++row) {
      HWY_UNROLL(4)
      for (int b = 0; b < side; ++b) blocks[b] = hn::Add(blocks[b], load(row + b * bias_rows));
    }
    sum = add || block > 0 ? hn::Add(sum, blocks[0]) : blocks[0];
    HWY_UNROLL(4)
    for (int b = 1; b < side; ++b) sum = hn::Add(sum, blocks[b]);
  }
  for (; block < rows; block += bias_rows) {
    V one = hn::Zero(d);
    for (std::int64_t row = block; row < std::min(rows, block + bias_rows); ++row) one = hn::Add(one, load(row));
    sum = add || block > 0 ? hn::Add(sum, one) : one;
  }
  return sum;
}

template <class S>
void SumRowsInBlocks(const void* source, std::int64_t stride, std::int64_t rows, std::int64_t count, float* sums, bool add) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* from = static_cast<const S*>(source);
  std::int64_t i = 0;
  for (; i + 8 * lanes <= count; i += 8 * lanes) SumColumns<8>(d, from + i, stride, rows, sums + i, add);
  for (; i + 4 * lanes <= count; i += 4 * lanes) SumColumns<4>(d, from + i, stride, rows, sums + i, add);
  for (; i + 2 * lanes <= count; i += 2 * lanes) SumColumns<2>(d, from + i, stride, rows, sums + i, add);
  for (; i + lanes <= count; i += lanes) {
    const auto load = [&](std::int64_t row) HWY_ATTR { return LoadAs(d, from + row * stride + i); };
    hn::StoreU(SumOfRows(d, load, rows, hn::LoadU(d, sums + i), add), d, sums + i);
  }
  if (HWY_MEM_OPS_MIGHT_FAULT == 0 && i < count) {
    const std::int64_t rest = count - i;
    const auto load = [&](std::int64_t row) HWY_ATTR { return LoadPart(d, from + row * stride + i, rest); };
    const auto sum = SumOfRows(d, load, rows, LoadPart(d, sums + i, rest), add);
    hn::BlendedStore(sum, hn::FirstN(d, static_cast<std::size_t>(rest)), d, sums + i);
    return;
  }
  const hn::CappedTag<float, 1> d1;
  for (; i < count; ++i) {
    const auto load = [&](std::int64_t row) HWY_ATTR { return LoadAs(d1, from + row * stride + i); };
    hn::StoreU(SumOfRows(d1, load, rows, hn::LoadU(d1, sums + i), add), d1, sums + i);
  }
}

template <class S>
Epilogues EpiloguesOf() {
  using enum Activation;
  return {.forward = {&FinishForward<none, S>, &FinishForward<gelu, S>, &FinishForward<gelu_tanh, S>, &FinishForward<relu, S>,
                      &FinishForward<silu, S>},
          .input = {&FinishInput<none, S>, &FinishInput<gelu, S>, &FinishInput<gelu_tanh, S>, &FinishInput<relu, S>,
                    &FinishInput<silu, S>},
          .sum_rows = &SumRowsInBlocks<S>};
}

EpilogueKernels AllEpilogues() { return {.f32 = EpiloguesOf<float>(), .bf16 = EpiloguesOf<BFloat16>()}; }

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {
HWY_EXPORT(AllEpilogues);
}  // namespace

EpilogueKernels epilogue_kernels_for(Isa isa) {
  const ScopedIsa scope(isa);
  return HWY_DYNAMIC_DISPATCH(AllEpilogues)();
}

}  // namespace lockstep::ops::cpu
#endif
