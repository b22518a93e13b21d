#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <vector>

#include "ops/cpu/isa.h"
#include "support/largest.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/vector_math_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/options.h"
#include "ops/cpu/simd/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

// f of every element; `count` is a multiple of 16.
template <class F>
HWY_INLINE void EachOf(const float* x, float* y, std::size_t count, F f) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
}

void EachExp(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR { return Exp(d, v); });
}
void EachTanh(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR { return Tanh(d, v); });
}
void EachErf(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR { return Erf(d, v); });
}
void EachGelu(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR { return Gelu(d, v); });
}
void EachGeluGrad(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR { return GeluGrad(d, v); });
}
void EachGeluTanh(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR { return GeluTanh(d, v); });
}
void EachGeluTanhGrad(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR { return GeluTanhGrad(d, v); });
}
void EachSilu(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR { return Silu(d, v); });
}
void EachSiluGrad(const float* x, float* y, std::size_t n) {
  EachOf(x, y, n, [](auto d, auto v) HWY_ATTR {
    auto grad = v;
    (void)SiluWithGrad(d, v, grad);
    return grad;
  });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(EachExp);
HWY_EXPORT(EachTanh);
HWY_EXPORT(EachErf);
HWY_EXPORT(EachGelu);
HWY_EXPORT(EachGeluGrad);
HWY_EXPORT(EachGeluTanh);
HWY_EXPORT(EachGeluTanhGrad);
HWY_EXPORT(EachSilu);
HWY_EXPORT(EachSiluGrad);

using Each = void (*)(const float*, float*, std::size_t);
struct Function {
  const char* name;
  Each each;
  double (*exact)(double);
  double ulps;      // of the exact value
  double absolute;  // times max(1, |x|)
};

double phi(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

std::vector<Function> functions_of(Isa isa) {
  const ScopedIsa scope(isa);
  return {
      {"exp", &HWY_DYNAMIC_DISPATCH(EachExp), [](double x) { return std::exp(x); }, 4, 1e-38},
      {"tanh", &HWY_DYNAMIC_DISPATCH(EachTanh), [](double x) { return std::tanh(x); }, 7, 0},
      {"erf", &HWY_DYNAMIC_DISPATCH(EachErf), [](double x) { return std::erf(x); }, 7, 0},
      {"gelu", &HWY_DYNAMIC_DISPATCH(EachGelu), [](double x) { return x * phi(x); }, 0, 4e-7},
      {"gelu'", &HWY_DYNAMIC_DISPATCH(EachGeluGrad),
       [](double x) { return phi(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }, 0, 4e-7},
      {"gelu_tanh", &HWY_DYNAMIC_DISPATCH(EachGeluTanh), [](double x) { return 0.5 * x * (1 + std::tanh(inner(x))); }, 0, 4e-7},
      {"gelu_tanh'", &HWY_DYNAMIC_DISPATCH(EachGeluTanhGrad),
       [](double x) {
         const double t = std::tanh(inner(x));
         return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
       },
       0, 4e-7},
      {"silu", &HWY_DYNAMIC_DISPATCH(EachSilu), [](double x) { return x * sigmoid(x); }, 0, 4e-7},
      {"silu'", &HWY_DYNAMIC_DISPATCH(EachSiluGrad), [](double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }, 0, 4e-7},
  };
}

// Every scale from 1e-9 to 80, both signs.
std::vector<float> arguments() {
  std::vector<float> x;
  for (float a = 1e-9F; a < 80; a *= 1.0003F) {
    x.push_back(a);
    x.push_back(-a);
  }
  while (x.size() % 16 != 0) x.push_back(0);
  return x;
}

std::vector<float> applied(const Function& function, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  function.each(x.data(), y.data(), x.size());
  return y;
}

TEST(VectorMath, IsCloseToDouble) {
  const std::vector<float> x = arguments();
  for (const Isa isa : available_isas()) {
    for (const Function& function : functions_of(isa)) {
      const std::vector<float> y = applied(function, x);
      support::Largest worst;
      float at = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = function.exact(double{x[i]});
        const auto rounded = std::fabs(static_cast<float>(exact));
        const double ulp = double{std::nextafter(rounded, std::numeric_limits<float>::infinity())} - double{rounded};
        const double allowed = function.ulps * ulp + function.absolute * std::fmax(1.0, std::fabs(double{x[i]}));
        if (worst.take(std::fabs(double{y[i]} - exact) / allowed)) at = x[i];
      }
      EXPECT_LE(worst.value(), 1.0) << function.name << " on " << name_of(isa) << " at " << at;
    }
  }
}

TEST(VectorMath, FusedTargetsAgreeBitForBit) {
  const std::vector<float> x = arguments();
  std::vector<std::vector<float>> first;
  for (const Isa isa : available_isas()) {
    if (isa == Isa::baseline) continue;
    const std::vector<Function> functions = functions_of(isa);
    if (first.empty())
      for (const Function& function : functions) first.push_back(applied(function, x));
    for (std::size_t f = 0; f < functions.size(); ++f)
      EXPECT_EQ(applied(functions[f], x), first[f]) << functions[f].name << " on " << name_of(isa);
  }
}

TEST(VectorMath, EdgesAreRight) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(16);
  x[0] = infinity;
  x[1] = -infinity;
  x[2] = std::numeric_limits<float>::quiet_NaN();
  x[3] = 89;
  x[4] = -1000;
  for (const Isa isa : available_isas()) {
    for (const Function& function : functions_of(isa)) EXPECT_TRUE(std::isnan(applied(function, x)[2])) << function.name;
    const std::vector<Function> functions = functions_of(isa);
    const std::vector<float> e = applied(functions[0], x), t = applied(functions[1], x);
    EXPECT_EQ(e[0], infinity);
    EXPECT_EQ(e[1], 0);
    EXPECT_EQ(e[3], infinity);
    EXPECT_EQ(e[4], 0);
    EXPECT_EQ(e[5], 1);
    EXPECT_EQ(t[0], 1);
    EXPECT_EQ(t[1], -1);
    EXPECT_EQ(t[5], 0);
    const std::vector<float> silu = applied(functions[functions.size() - 2], x), slope = applied(functions.back(), x);
    EXPECT_EQ(silu[3], 89);
    EXPECT_NEAR(silu[4], 0, 1e-30);
    EXPECT_EQ(slope[3], 1);
    EXPECT_NEAR(slope[4], 0, 1e-30);
  }
}

}  // namespace
}  // namespace lockstep::ops::cpu
#endif
