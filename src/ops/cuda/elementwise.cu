// Plain element-wise work, a thread an element, and the numbers that initialise parameters.

#include "device/cuda/check.h"
#include "ops/cuda/device/each.cuh"
#include "ops/cuda/device/math.cuh"
#include "ops/cuda/device/philox.cuh"

namespace lockstep::ops::cuda {
namespace {

template <class S>
struct Fill {
  S* x;
  float value;
  __device__ void operator()(std::int64_t i) const { store(x + i, value); }
};

template <class To, class From>
struct Cast {
  Rows<To> to;
  Rows<const From> from;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    if constexpr (std::is_same_v<To, From>) {
      *to.at(i, j) = *from.at(i, j);
    } else {
      store(to.at(i, j), load(from.at(i, j)));
    }
  }
  __device__ void operator()(std::int64_t i) const { (*this)(0, i); }
};

template <class S>
struct Add {
  Rows<S> to;
  Rows<const S> from;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    store(to.at(i, j), load(to.at(i, j)) + load(from.at(i, j)));
  }
  __device__ void operator()(std::int64_t i) const { (*this)(0, i); }
};

struct Split {
  BFloat16* high;
  std::uint16_t* low;  // may be null
  const float* x;
  __device__ void operator()(std::int64_t i) const {
    const Halves halves = to_halves(x[i]);
    high[i] = halves.high;
    if (low != nullptr) low[i] = halves.low;
  }
};

struct Join {
  float* x;
  const BFloat16* high;
  const std::uint16_t* low;
  __device__ void operator()(std::int64_t i) const { x[i] = from_halves({high[i], low[i]}); }
};

template <class S>
struct FinishSums {
  Rows<S> y;
  Rows<const float> sums;
  const S* bias;           // may be null
  Rows<const S> residual;  // may be null
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    float value = *sums.at(i, j);
    if (bias != nullptr) value += load(bias + j);
    if (residual.data != nullptr) value += load(residual.at(i, j));
    store(y.at(i, j), value);
  }
};

template <class S>
struct Scale {
  S* x;
  float factor;
  __device__ void operator()(std::int64_t i) const { store(x + i, load(x + i) * factor); }
};

struct SoftCap {
  float *x, *tanhs;  // tanhs may be null
  float cap, part;
  __device__ void operator()(std::int64_t i) const {
    const float tanh = hyperbolic_tangent(x[i] * part);
    if (tanhs != nullptr) tanhs[i] = tanh;
    x[i] = tanh * cap;
  }
};

struct SoftCapBackward {
  float* d;
  const float* tanhs;
  __device__ void operator()(std::int64_t i) const { d[i] *= fmaf(-tanhs[i], tanhs[i], 1.0F); }
};

/// ln x for normal x > 0 (Cephes, Moshier).
__device__ __forceinline__ float natural_logarithm(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t exponent = (bits - 0x3F3504F3) >> 23;
  const auto e = static_cast<float>(exponent);
  const float f = std::bit_cast<float>(bits - static_cast<std::int32_t>(static_cast<std::uint32_t>(exponent) << 23U)) - 1.0F;
  const float z = f * f;
  const float p = polynomial(f, 7.0376836292e-2F, -1.1514610310e-1F, 1.1676998740e-1F, -1.2420140846e-1F, 1.4249322787e-1F,
                             -1.6668057665e-1F, 2.0000714765e-1F, -2.4999993993e-1F, 3.3333331174e-1F);
  float rest = fmaf(e, -2.12194440e-4F, p * f * z);
  rest = fmaf(-z, 0.5F, rest);
  return fmaf(e, 0.693359375F, f + rest);
}

struct Circle {
  float sine, cosine;
};

/// Sine and cosine of word / 2^32 turns: the quarter turn is taken off exactly, in integers.
__device__ __forceinline__ Circle circle_of(std::uint32_t word) {
  const std::uint32_t quarter = (word + (1U << 29U)) >> 30U;
  const auto rest = static_cast<std::int32_t>(word - (quarter << 30U));
  const float a = static_cast<float>(rest) * 1.46291807926715968e-9F;  // pi / 2^31
  const float z = a * a;
  float s = polynomial(z, -1.9515295891e-4F, 8.3321608736e-3F, -1.6666654611e-1F);
  s = fmaf(s * z, a, a);
  float c = polynomial(z, 2.443315711809948e-5F, -1.388731625493765e-3F, 4.166664568298827e-2F);
  c = fmaf(c * z, z, fmaf(-z, 0.5F, 1.0F));
  const bool swapped = quarter % 2 == 1;
  const std::uint32_t sine_sign = (quarter & 2U) << 30U, cosine_sign = ((quarter + 1) & 2U) << 30U;
  return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(swapped ? c : s) ^ sine_sign),
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(swapped ? s : c) ^ cosine_sign)};
}

/// Box-Muller on words 2j and 2j + 1 of the sequence for elements 2j, 2j + 1. A thread has the four elements of a block of words.
template <class S>
struct Normal {
  S* x;
  std::int64_t count;
  std::int64_t first;  // element of the sequence that x[0] is
  std::uint32_t key0, key1;
  float mean, std;
  __device__ void operator()(std::int64_t i) const {
    const auto block = static_cast<std::uint64_t>(first / 4 + i);
    const Words words = philox({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), 0, 0}}, key0, key1);
    put(block, 0, words.w[0], words.w[1]);
    put(block, 2, words.w[2], words.w[3]);
  }
  __device__ void put(std::uint64_t block, std::int64_t place, std::uint32_t radius, std::uint32_t angle) const {
    const float u = fmaf(static_cast<float>(static_cast<std::int32_t>(radius >> 1U)), 0x1p-31F, 0x1p-32F);
    const float r = sqrtf(natural_logarithm(u) * -2.0F) * std;
    const Circle circle = circle_of(angle);
    const std::int64_t at = static_cast<std::int64_t>(block) * 4 + place - first;
    if (at >= 0 && at < count) store(x + at, fmaf(r, circle.cosine, mean));
    if (at + 1 >= 0 && at + 1 < count) store(x + at + 1, fmaf(r, circle.sine, mean));
  }
};

template <class S>
struct Uniform {
  S* x;
  std::int64_t first;
  std::uint32_t key0, key1;
  double low, width;
  __device__ void operator()(std::int64_t i) const {
    const auto index = static_cast<std::uint64_t>(first + i);
    const Words words = philox({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32U), 0, 0}}, key0, key1);
    const std::uint64_t bits = words.w[0] | std::uint64_t{words.w[1]} << 32U;
    store(x + i, static_cast<float>(low + width * (static_cast<double>(bits >> 11U) * 0x1p-53)));
  }
};

class CudaElementwise final : public Elementwise {
 public:
  explicit CudaElementwise(const Context& context) : Elementwise(context.observer), context_(context) {}

 private:
  void do_zero(const Tensor& x) override {
    if (x.elements() == 0) return;
    if (!context_.gate.lets(x.data, x.bytes())) return;
    lockstep::cuda::check(cudaMemsetAsync(x.data, 0, x.bytes(), context_.native), "cudaMemsetAsync");
  }

  void do_fill(const Tensor& x, float value) override {
    with_storage(x.dtype, [&]<class S>(S) { for_elements(context_, x.elements(), Fill<S>{data_of<S>(x), value}); });
  }

  void do_cast(const Tensor& y, const Tensor& x) override {
    with_storage(y.dtype, [&]<class To>(To) {
      with_storage(x.dtype, [&]<class From>(From) { for_pairs(y, x, Cast<To, From>{rows_of<To>(y), rows_of<const From>(x)}); });
    });
  }

  void do_split(const Tensor& high, const Tensor& low, const Tensor& x) override {
    for_elements(context_, x.elements(), Split{data_of<BFloat16>(high), data_of<std::uint16_t>(low), data_of<const float>(x)});
  }

  void do_join(const Tensor& x, const Tensor& high, const Tensor& low) override {
    for_elements(context_, x.elements(),
                 Join{data_of<float>(x), data_of<const BFloat16>(high), data_of<const std::uint16_t>(low)});
  }

  void do_add(const Tensor& y, const Tensor& x) override {
    with_storage(x.dtype, [&]<class S>(S) { for_pairs(y, x, Add<S>{rows_of<S>(y), rows_of<const S>(x)}); });
  }

  void do_finish_sums(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual) override {
    with_storage(y.dtype, [&]<class S>(S) {
      for_matrix(context_, sums.rows(), sums.columns(),
                 FinishSums<S>{rows_of<S>(y), rows_of<const float>(sums), data_of<const S>(bias), rows_of<const S>(residual)});
    });
  }

  void do_scale(const Tensor& x, float factor) override {
    with_storage(x.dtype, [&]<class S>(S) { for_elements(context_, x.elements(), Scale<S>{data_of<S>(x), factor}); });
  }

  void do_soft_cap(const Tensor& x, const Tensor& tanhs, float cap) override {
    for_elements(context_, x.elements(), SoftCap{data_of<float>(x), data_of<float>(tanhs), cap, 1 / cap});
  }

  void do_soft_cap_backward(const Tensor& d, const Tensor& tanhs) override {
    for_elements(context_, d.elements(), SoftCapBackward{data_of<float>(d), data_of<const float>(tanhs)});
  }

  void do_normal(const Tensor& x, const CounterRng& rng, std::int64_t first, float mean, float std) override {
    const auto [key0, key1] = rng.key();
    const std::int64_t blocks = div_up(first + x.elements(), 4) - first / 4;
    with_storage(x.dtype, [&, key0 = key0, key1 = key1]<class S>(S) {
      for_elements(context_, blocks, Normal<S>{data_of<S>(x), x.elements(), first, key0, key1, mean, std});
    });
  }

  void do_uniform(const Tensor& x, const CounterRng& rng, std::int64_t first, float low, float high) override {
    const auto [key0, key1] = rng.key();
    const double width = static_cast<double>(high) - low;
    with_storage(x.dtype, [&, key0 = key0, key1 = key1]<class S>(S) {
      for_elements(context_, x.elements(), Uniform<S>{data_of<S>(x), first, key0, key1, low, width});
    });
  }

  /// body on the elements of dense tensors, or of rows.
  template <class Body>
  void for_pairs(const Tensor& y, const Tensor& x, const Body& body) {
    if (x.dense() && y.dense()) return for_elements(context_, x.elements(), body);
    for_matrix(context_, x.rows(), x.columns(), body);
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Elementwise> make_elementwise(const Context& context) { return std::make_unique<CudaElementwise>(context); }

}  // namespace lockstep::ops::cuda
