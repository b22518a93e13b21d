// Activations on their own.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/activation.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

struct NoneFunction {
  static HWY_INLINE FloatVec Value(FloatVec x) { return x; }
  static HWY_INLINE FloatVec ValueWithGrad(FloatVec x, FloatVec& grad) {
    grad = hn::Set(floats_tag, 1);
    return x;
  }
};
struct GeluFunction {
  static HWY_INLINE FloatVec Value(FloatVec x) { return Gelu(floats_tag, x); }
  static HWY_INLINE FloatVec ValueWithGrad(FloatVec x, FloatVec& grad) { return GeluWithGrad(floats_tag, x, grad); }
};
struct GeluTanhFunction {
  static HWY_INLINE FloatVec Value(FloatVec x) { return GeluTanh(floats_tag, x); }
  static HWY_INLINE FloatVec ValueWithGrad(FloatVec x, FloatVec& grad) { return GeluTanhWithGrad(floats_tag, x, grad); }
};
struct ReluFunction {
  static HWY_INLINE FloatVec Value(FloatVec x) { return hn::IfThenElseZero(hn::Gt(x, hn::Zero(floats_tag)), x); }
  static HWY_INLINE FloatVec ValueWithGrad(FloatVec x, FloatVec& grad) {
    grad = hn::IfThenElseZero(hn::Gt(x, hn::Zero(floats_tag)), hn::Set(floats_tag, 1));
    return Value(x);
  }
};

struct SiluFunction {
  static HWY_INLINE FloatVec Value(FloatVec x) { return Silu(floats_tag, x); }
  static HWY_INLINE FloatVec ValueWithGrad(FloatVec x, FloatVec& grad) { return SiluWithGrad(floats_tag, x, grad); }
};

template <class Function>
HWY_FLATTEN void ForwardRow(float* y, const float* x, std::int64_t columns) {
  ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
    group.Store(Map([](FloatVec v) HWY_ATTR { return Function::Value(v); }, group.Load(x + j)), y + j);
  });
}

template <class Function>
HWY_FLATTEN void BackwardRow(float* dx, float* y, const float* dy, const float* x, std::int64_t columns) {
  ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen before = group.Load(x + j), d_y = group.Load(dy + j);
    Sixteen after, d_x;
    for (std::size_t k = 0; k < vector_count; ++k) {
      FloatVec grad;
      after.v[k] = Function::ValueWithGrad(before.v[k], grad);
      d_x.v[k] = hn::Mul(d_y.v[k], grad);
    }
    group.Store(d_x, dx + j);
    if (y != nullptr) group.Store(after, y + j);
  });
}

template <class Body>
HWY_INLINE void WithFunction(Activation f, const Body& body) {
  switch (f) {
    case Activation::none:
      return body(NoneFunction{});
    case Activation::gelu:
      return body(GeluFunction{});
    case Activation::gelu_tanh:
      return body(GeluTanhFunction{});
    case Activation::relu:
      return body(ReluFunction{});
    case Activation::silu:
      return body(SiluFunction{});
  }
}

/// bf16 goes through a buffer of so many floats, a piece of a row at a time: the functions are compiled for floats only.
constexpr std::int64_t buffer_size = 512;

/// Columns of `tensor` that one piece of a row has.
HWY_INLINE std::int64_t PieceOf(const Tensor& tensor) {
  return tensor.dtype == DType::f32 ? std::max<std::int64_t>(1, tensor.columns()) : buffer_size;
}

/// Elements [column, column + count) of row `row`: where they lie or, if they are bf16, widened to `buffer`.
HWY_NOINLINE const float* Piece(const Tensor& tensor, std::int64_t row, std::int64_t column, std::int64_t count, float* buffer) {
  if (tensor.dtype == DType::f32) return row_of(tensor, row) + column;
  const BFloat16* from = row_of<BFloat16>(tensor, row) + column;
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR { Store16(group.Load(from + j), buffer + j); });
  return buffer;
}

/// Where such a piece is written; null for an empty tensor. Put brings it to a bf16 tensor.
HWY_INLINE float* PlaceOf(const Tensor& tensor, std::int64_t row, std::int64_t column, float* buffer) {
  if (!tensor) return nullptr;
  return tensor.dtype == DType::f32 ? row_of(tensor, row) + column : buffer;
}
HWY_NOINLINE void Put(const Tensor& tensor, std::int64_t row, std::int64_t column, std::int64_t count, const float* buffer) {
  if (!tensor || tensor.dtype == DType::f32) return;
  BFloat16* to = row_of<BFloat16>(tensor, row) + column;
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(group.Load(buffer + j), to + j); });
}

void ForwardRows(const Tensor& y, const Tensor& x, Activation f, std::int64_t first, std::int64_t last) {
  const std::int64_t piece = PieceOf(x);
  WithFunction(f, [&](auto function) HWY_ATTR {
    alignas(64) float buffer[buffer_size];
    for (std::int64_t i = first; i < last; ++i) {
      for (std::int64_t j = 0; j < x.columns(); j += piece) {
        const std::int64_t count = std::min(piece, x.columns() - j);
        ForwardRow<decltype(function)>(PlaceOf(y, i, j, buffer), Piece(x, i, j, count, buffer), count);
        Put(y, i, j, count, buffer);
      }
    }
  });
}

void BackwardRows(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f, std::int64_t first,
                  std::int64_t last) {
  const std::int64_t piece = PieceOf(x);
  WithFunction(f, [&](auto function) HWY_ATTR {
    alignas(64) float values[buffer_size], gradients[buffer_size];
    for (std::int64_t i = first; i < last; ++i) {
      for (std::int64_t j = 0; j < x.columns(); j += piece) {
        const std::int64_t count = std::min(piece, x.columns() - j);
        BackwardRow<decltype(function)>(PlaceOf(dx, i, j, gradients), PlaceOf(y, i, j, values), Piece(dy, i, j, count, gradients),
                                        Piece(x, i, j, count, values), count);
        Put(dx, i, j, count, gradients);
        Put(y, i, j, count, values);
      }
    }
  });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(ForwardRows);
HWY_EXPORT(BackwardRows);

class CpuActivations final : public Activations {
 public:
  explicit CpuActivations(const Context& context) : Activations(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    forward_ = &HWY_DYNAMIC_DISPATCH(ForwardRows);
    backward_ = &HWY_DYNAMIC_DISPATCH(BackwardRows);
  }

 private:
  // An element costs about four times that of plain element-wise work.
  static std::int64_t tile(const Tensor& x) { return std::max<std::int64_t>(1, rows_per_tile(x.columns()) / 4); }

  void do_forward(const Tensor& y, const Tensor& x, Activation f) override {
    context_.deal(x.rows(), tile(x), [&](std::int64_t first, std::int64_t last) { forward_(y, x, f, first, last); });
  }

  void do_backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f) override {
    context_.deal(x.rows(), tile(x), [&](std::int64_t first, std::int64_t last) { backward_(dx, y, dy, x, f, first, last); });
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(ForwardRows)) forward_;
  decltype(&HWY_STATIC_DISPATCH(BackwardRows)) backward_;
};

}  // namespace

std::unique_ptr<Activations> make_activation(const Context& context) { return std::make_unique<CpuActivations>(context); }

}  // namespace lockstep::ops::cpu
#endif
