#pragma once

// Functions of a float. They have the operations of the CPU's vectors (ops/cpu/simd/vector_math-inl.h, which says how exact they
// are), and so equal bits. NaN goes through.

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "ops/linear.h"

namespace lockstep::ops::cuda {

/// The larger of the two. Where one is NaN, or both are zero, it is b, as the processor's instructions have it.
__device__ __forceinline__ float max_of(float a, float b) { return a > b ? a : b; }
__device__ __forceinline__ float min_of(float a, float b) { return a < b ? a : b; }

/// Horner's rule, coefficients given from the highest power down.
template <class... Rest>
__device__ __forceinline__ float polynomial(float x, float value, Rest... rest) {
  ((value = fmaf(value, x, rest)), ...);
  return value;
}

inline constexpr float log2_e = 1.44269502F;
/// The sum with 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
inline constexpr float rounding_shift = 12582912.0F;

/// 2^(n + f), n in the low bits of `shifted`, |f| <= 0.5.
__device__ __forceinline__ float two_to(float shifted, float f) {
  const float square = f * f;
  const float low = fmaf(f, 5.550359935e-02F, 2.402264774e-01F);
  const float middle = fmaf(f, 1.339080743e-03F, 9.618505836e-03F);
  const float high = fmaf(square, 1.532647002e-04F, middle);
  const float linear = fmaf(f, 6.931471825e-01F, 1.0F);
  const float power = fmaf(fmaf(high, square, low), square, linear);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(power) + (std::bit_cast<std::uint32_t>(shifted) << 23U));
}

/// 2^x for -126 <= x <= 127; the caller bounds x.
__device__ __forceinline__ float power_of_two(float x) {
  const float shifted = x + rounding_shift;
  return two_to(shifted, x - (shifted - rounding_shift));
}

/// e^x. Results below the least normal number are 0.
__device__ __forceinline__ float exponential(float x) {
  const float shifted = fmaf(x, log2_e, rounding_shift);
  const float n = shifted - rounding_shift;
  float r = fmaf(-n, 0.693359375F, x);
  r = fmaf(-n, -2.12194440e-4F, r);
  const float power = two_to(shifted, r * log2_e);
  if (x > 88.722835F) return std::numeric_limits<float>::infinity();
  return x < -87.336540F ? 0.0F : power;
}

__device__ __forceinline__ float hyperbolic_tangent(float x) {
  const float s = x * x;
  const float p = polynomial(s, -2.76076847742355e-16F, 2.00018790482477e-13F, -8.60467152213735e-11F, 5.12229709037114e-08F,
                             1.48572235717979e-05F, 6.37261928875436e-04F, 4.89352455891786e-03F);
  const float q = polynomial(s, 1.19825839466702e-06F, 1.18534705686654e-04F, 2.26843463243900e-03F, 4.89352518554385e-03F);
  return fabsf(x) > 7.90531110763549805F ? copysignf(1.0F, x) : x * p / q;
}

__device__ __forceinline__ float error_function(float x) {
  const float s = x * x;
  const float p = polynomial(s, -2.72614225801306e-10F, 2.77068142495902e-08F, -2.10102402082508e-06F, -5.69250639462346e-05F,
                             -7.34990630326855e-04F, -2.95459980854025e-03F, -1.60960333262415e-02F);
  const float q = polynomial(s, -1.45660718464996e-05F, -2.13374055278905e-04F, -1.68282697438203e-03F, -7.37332916720468e-03F,
                             -1.42647390514189e-02F);
  return fabsf(x) > 4.0F ? copysignf(1.0F, x) : x * p / q;
}

/// A function's value and its derivative.
struct Slope {
  float value, slope;
};

__device__ __forceinline__ float gelu_share(float x) { return fmaf(error_function(x * 0.707106781186547524F), 0.5F, 0.5F); }

__device__ __forceinline__ Slope gelu_slope(float x) {
  const float share = gelu_share(x);
  const float density = exponential(x * x * -0.5F) * 0.398942280401432678F;
  return {x * share, fmaf(x, density, share)};
}

/// e^(-2u) for u = sqrt(2/pi) (x + 0.044715 x^3).
__device__ __forceinline__ float gelu_tanh_power(float x) {
  const float cubic = fmaf(x * x, -0.102943242F, -2.30220819F);
  return power_of_two(max_of(-126.0F, min_of(115.0F, x * cubic)));
}

/// e^-x, at most e^80.
__device__ __forceinline__ float sigmoid_power(float x) { return exponential(min_of(80.0F, -x)); }

/// x s for s = 1 / (1 + e).
__device__ __forceinline__ float times_sigmoid(float x, float e) { return x * (1.0F / (1.0F + e)); }

/// x s, and its derivative s + s (1 - s) inner. The derivative of e is -e inner / x.
__device__ __forceinline__ Slope times_sigmoid_slope(float x, float e, float inner) {
  const float s = 1.0F / (1.0F + e);
  return {x * s, fmaf(s * e * s, inner, s)};
}

__device__ __forceinline__ Slope gelu_tanh_slope(float x) {
  const float slope = fmaf(x * x, 0.2140644488178F, 1.59576912160573F);
  return times_sigmoid_slope(x, gelu_tanh_power(x), x * slope);
}

/// f(x). ReLU of a zero has the sign that a product's epilogue gives it.
__device__ __forceinline__ float activate(Activation f, float x) {
  switch (f) {
    case Activation::gelu:
      return x * gelu_share(x);
    case Activation::gelu_tanh:
      return times_sigmoid(x, gelu_tanh_power(x));
    case Activation::relu:
      return max_of(0.0F, x);
    case Activation::silu:
      return times_sigmoid(x, sigmoid_power(x));
    default:
      return x;
  }
}

/// f(x) and f'(x).
__device__ __forceinline__ Slope activate_slope(Activation f, float x) {
  switch (f) {
    case Activation::gelu:
      return gelu_slope(x);
    case Activation::gelu_tanh:
      return gelu_tanh_slope(x);
    case Activation::relu:
      return {max_of(0.0F, x), x > 0 ? 1.0F : 0.0F};
    case Activation::silu:
      return times_sigmoid_slope(x, sigmoid_power(x), x);
    default:
      return {x, 1.0F};
  }
}

}  // namespace lockstep::ops::cuda
