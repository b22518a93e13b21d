// Functions of a vector of floats, included once per Highway target (so it has no include guard) after hwy/highway.h.
//
// Every function is one fixed sequence of operations, so its result does not depend on the vector's width. AVX2 and AVX-512 give
// equal bits; the baseline has no fused multiply-add and differs. NaN goes through. Errors against the exact value: Exp within 4
// units in the last place, Tanh and Erf within 7, GELUs and SiLU within 4e-7 max(1, |x|).

#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// c[0] + c[1] x + ... by Horner's rule, coefficients given from the highest power down.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Polynomial(D, V, V value) {
  return value;
}
template <class D, class V = hn::Vec<D>, class... Rest>
HWY_INLINE V Polynomial(D d, V x, V value, float next, Rest... rest) {
  return Polynomial(d, x, hn::MulAdd(value, x, hn::Set(d, next)), rest...);
}

inline constexpr float log2_e = 1.44269502F;
// The sum with 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
inline constexpr float rounding_shift = 12582912.0F;

/// 2^(n + f), n in the low bits of `shifted`, |f| <= 0.5. The polynomial (greatest relative error 3e-9) is cut in halves,
/// which is shorter than Horner's chain.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TwoTo(D d, V shifted, V f) {
  const hn::Rebind<std::int32_t, D> di;
  const V square = hn::Mul(f, f);
  const V low = hn::MulAdd(f, hn::Set(d, 5.550359935e-02F), hn::Set(d, 2.402264774e-01F));
  const V middle = hn::MulAdd(f, hn::Set(d, 1.339080743e-03F), hn::Set(d, 9.618505836e-03F));
  const V high = hn::MulAdd(square, hn::Set(d, 1.532647002e-04F), middle);
  const V linear = hn::MulAdd(f, hn::Set(d, 6.931471825e-01F), hn::Set(d, 1.0F));
  const V power = hn::MulAdd(hn::MulAdd(high, square, low), square, linear);
  return hn::BitCast(d, hn::Add(hn::BitCast(di, power), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

/// 2^x for -126 <= x <= 127; the caller bounds x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowerOfTwo(D d, V x) {
  const V shift = hn::Set(d, rounding_shift);
  const V shifted = hn::Add(x, shift);
  return TwoTo(d, shifted, hn::Sub(x, hn::Sub(shifted, shift)));
}

/// e^x. Results below the least normal number are 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const V shift = hn::Set(d, rounding_shift);
  const V shifted = hn::MulAdd(x, hn::Set(d, log2_e), shift);
  const V n = hn::Sub(shifted, shift);
  // x less n ln 2. ln 2 is in two parts, of which the first times n is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  const V power = TwoTo(d, shifted, hn::Mul(r, hn::Set(d, log2_e)));
  const V bounded = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.336540F)), power);
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.722835F)), hn::Set(d, std::numeric_limits<float>::infinity()), bounded);
}

/// Hyperbolic tangent: a rational function of degree 13 over 6.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const auto saturated = hn::Gt(hn::Abs(x), hn::Set(d, 7.90531110763549805F));
  const V sign = hn::CopySign(hn::Set(d, 1.0F), x);
  const V s = hn::Mul(x, x);
  const V p = Polynomial(d, s, hn::Set(d, -2.76076847742355e-16F), 2.00018790482477e-13F, -8.60467152213735e-11F,
                         5.12229709037114e-08F, 1.48572235717979e-05F, 6.37261928875436e-04F, 4.89352455891786e-03F);
  const V q =
      Polynomial(d, s, hn::Set(d, 1.19825839466702e-06F), 1.18534705686654e-04F, 2.26843463243900e-03F, 4.89352518554385e-03F);
  return hn::IfThenElse(saturated, sign, hn::Div(hn::Mul(x, p), q));
}

/// Error function: a rational function of degree 13 over 8.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  const auto saturated = hn::Gt(hn::Abs(x), hn::Set(d, 4.0F));
  const V sign = hn::CopySign(hn::Set(d, 1.0F), x);
  const V s = hn::Mul(x, x);
  const V p = Polynomial(d, s, hn::Set(d, -2.72614225801306e-10F), 2.77068142495902e-08F, -2.10102402082508e-06F,
                         -5.69250639462346e-05F, -7.34990630326855e-04F, -2.95459980854025e-03F, -1.60960333262415e-02F);
  const V q = Polynomial(d, s, hn::Set(d, -1.45660718464996e-05F), -2.13374055278905e-04F, -1.68282697438203e-03F,
                         -7.37332916720468e-03F, -1.42647390514189e-02F);
  return hn::IfThenElse(saturated, sign, hn::Div(hn::Mul(x, p), q));
}

/// GELU: x Phi(x). `grad` gets the derivative Phi(x) + x phi(x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluWithGrad(D d, V x, V& grad) {
  const V half = hn::Set(d, 0.5F);
  const V cdf = hn::MulAdd(Erf(d, hn::Mul(x, hn::Set(d, 0.707106781186547524F))), half, half);
  const V density = hn::Mul(Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5F))), hn::Set(d, 0.398942280401432678F));
  grad = hn::MulAdd(x, density, cdf);
  return hn::Mul(x, cdf);
}

/// x Phi(x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  const V half = hn::Set(d, 0.5F);
  return hn::Mul(x, hn::MulAdd(Erf(d, hn::Mul(x, hn::Set(d, 0.707106781186547524F))), half, half));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluGrad(D d, V x) {
  V grad;
  (void)GeluWithGrad(d, x, grad);
  return grad;
}

/// e^(-2u) for u = sqrt(2/pi) (x + 0.044715 x^3): 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)), exact in the tails too.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanhPower(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -0.102943242F), hn::Set(d, -2.30220819F));  // over ln 2
  return PowerOfTwo(d, hn::Max(hn::Set(d, -126.0F), hn::Min(hn::Set(d, 115.0F), hn::Mul(x, cubic))));
}

/// x s for s = 1 / (1 + e).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TimesSigmoid(D d, V x, V e) {
  const V one = hn::Set(d, 1.0F);
  return hn::Mul(x, hn::Div(one, hn::Add(one, e)));
}

/// x s as TimesSigmoid() has it. `grad` gets the derivative `s + s (1 - s) inner`, where `1 - s = s e`. The derivative of e is
/// `-e inner / x`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TimesSigmoidWithGrad(D d, V x, V e, V inner, V& grad) {
  const V one = hn::Set(d, 1.0F);
  const V s = hn::Div(one, hn::Add(one, e));
  grad = hn::MulAdd(hn::Mul(hn::Mul(s, e), s), inner, s);
  return hn::Mul(x, s);
}

/// GELU's tanh form: 0.5 x (1 + tanh u).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  return TimesSigmoid(d, x, GeluTanhPower(d, x));
}

/// GeluTanh(). `grad` gets the derivative `s + x s (1 - s) 2u'`, where `s = 0.5 (1 + tanh u)` and `1 - s = s e^(-2u)`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanhWithGrad(D d, V x, V& grad) {
  const V slope = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.2140644488178F), hn::Set(d, 1.59576912160573F));
  return TimesSigmoidWithGrad(d, x, GeluTanhPower(d, x), hn::Mul(x, slope), grad);
}

/// e^-x, at most e^80, so that its products with the sigmoid stay finite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SigmoidPower(D d, V x) {
  return Exp(d, hn::Min(hn::Set(d, 80.0F), hn::Neg(x)));
}

/// SiLU: x / (1 + e^-x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  return TimesSigmoid(d, x, SigmoidPower(d, x));
}

/// SiLU. `grad` gets the derivative `s + x s (1 - s)`, where `s = 1 / (1 + e^-x)` and `1 - s = s e^-x`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SiluWithGrad(D d, V x, V& grad) {
  return TimesSigmoidWithGrad(d, x, SigmoidPower(d, x), x, grad);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanhGrad(D d, V x) {
  V grad;
  (void)GeluTanhWithGrad(d, x, grad);
  return grad;
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
