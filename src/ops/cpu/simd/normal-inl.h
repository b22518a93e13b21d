// Normally distributed numbers by Box-Muller, included once per Highway target after lanes-inl.h and philox-inl.h. One
// fixed sequence of operations at every width. Logarithm, sine and cosine are the single-precision polynomials of Cephes
// (Moshier), within 2 units in the last place here.

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

using Integers = hn::Repartition<std::int32_t, Floats>;
using IntegerVec = hn::Vec<Integers>;
constexpr Integers integers_tag;

HWY_INLINE FloatVec Constant(float value) { return hn::Set(floats_tag, value); }

/// ln x for normal x > 0.
HWY_INLINE FloatVec Log(FloatVec x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)).
  const IntegerVec bits = hn::BitCast(integers_tag, x);
  const IntegerVec exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(integers_tag, 0x3F3504F3)));
  const FloatVec e = hn::ConvertTo(floats_tag, exponent);
  const FloatVec f = hn::Sub(hn::BitCast(floats_tag, hn::Sub(bits, hn::ShiftLeft<23>(exponent))), Constant(1));
  const FloatVec z = hn::Mul(f, f);
  FloatVec p = Constant(7.0376836292e-2F);
  p = hn::MulAdd(p, f, Constant(-1.1514610310e-1F));
  p = hn::MulAdd(p, f, Constant(1.1676998740e-1F));
  p = hn::MulAdd(p, f, Constant(-1.2420140846e-1F));
  p = hn::MulAdd(p, f, Constant(1.4249322787e-1F));
  p = hn::MulAdd(p, f, Constant(-1.6668057665e-1F));
  p = hn::MulAdd(p, f, Constant(2.0000714765e-1F));
  p = hn::MulAdd(p, f, Constant(-2.4999993993e-1F));
  p = hn::MulAdd(p, f, Constant(3.3333331174e-1F));
  FloatVec rest = hn::MulAdd(e, Constant(-2.12194440e-4F), hn::Mul(hn::Mul(p, f), z));
  rest = hn::NegMulAdd(z, Constant(0.5F), rest);
  return hn::MulAdd(e, Constant(0.693359375F), hn::Add(f, rest));
}

/// Sine and cosine of word / 2^32 turns: the quarter turn is taken off exactly, in integers.
HWY_INLINE void SinCos(WordVec word, FloatVec& sine, FloatVec& cosine) {
  const WordVec quarter = hn::ShiftRight<30>(hn::Add(word, hn::Set(words_tag, 1U << 29)));
  const IntegerVec rest = hn::BitCast(integers_tag, hn::Sub(word, hn::ShiftLeft<30>(quarter)));
  const FloatVec a = hn::Mul(hn::ConvertTo(floats_tag, rest), Constant(1.46291807926715968e-9F));  // pi / 2^31
  const FloatVec z = hn::Mul(a, a);
  FloatVec s = hn::MulAdd(Constant(-1.9515295891e-4F), z, Constant(8.3321608736e-3F));
  s = hn::MulAdd(s, z, Constant(-1.6666654611e-1F));
  s = hn::MulAdd(hn::Mul(s, z), a, a);
  FloatVec c = hn::MulAdd(Constant(2.443315711809948e-5F), z, Constant(-1.388731625493765e-3F));
  c = hn::MulAdd(c, z, Constant(4.166664568298827e-2F));
  c = hn::MulAdd(hn::Mul(c, z), z, hn::NegMulAdd(z, Constant(0.5F), Constant(1)));
  const auto one = hn::Set(words_tag, 1), two = hn::Set(words_tag, 2);
  const auto swapped = hn::RebindMask(floats_tag, hn::Eq(hn::And(quarter, one), one));
  const auto sine_sign = hn::BitCast(floats_tag, hn::ShiftLeft<30>(hn::And(quarter, two)));
  const auto cosine_sign = hn::BitCast(floats_tag, hn::ShiftLeft<30>(hn::And(hn::Add(quarter, one), two)));
  sine = hn::Xor(hn::IfThenElse(swapped, c, s), sine_sign);
  cosine = hn::Xor(hn::IfThenElse(swapped, s, c), cosine_sign);
}

/// Writes 64 numbers to `to`: elements of blocks first_block .. first_block + 15 of a CounterRng, times std, plus mean. A block's
/// words 0 and 2 give the radius, 1 and 3 the angle. A pair of numbers is (cosine, sine).
HWY_INLINE void Normal64(float* to, std::uint64_t first_block, std::uint32_t key0, std::uint32_t key1, float mean, float std) {
  for (std::size_t k = 0; k < 16; k += block_lanes) {
    const BlockVec index = hn::Iota(blocks_tag, first_block + k);
    BlockWords words{{index, hn::ShiftRight<32>(index), hn::Zero(blocks_tag), hn::Zero(blocks_tag)}};
    Philox(words, key0, key1);
    const WordVec radius = PackWords(words.w[0], words.w[2]);
    FloatVec u = hn::ConvertTo(floats_tag, hn::BitCast(integers_tag, hn::ShiftRight<1>(radius)));
    u = hn::MulAdd(u, Constant(0x1p-31F), Constant(0x1p-32F));
    const FloatVec r = hn::Mul(hn::Sqrt(hn::Mul(Log(u), Constant(-2))), Constant(std));
    FloatVec sine, cosine;
    SinCos(PackWords(words.w[1], words.w[3]), sine, cosine);
    hn::StoreInterleaved2(hn::MulAdd(r, cosine, Constant(mean)), hn::MulAdd(r, sine, Constant(mean)), floats_tag, to + 4 * k);
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
