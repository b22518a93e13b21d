// Sixteen floats at every vector width: one vector of AVX-512, two of AVX2, four of the baseline. Sums inside a row run in these
// lanes and are combined in one tree, so they do not depend on the width (docs/numerics.md). Memory is f32 or bf16 (S), lanes are
// always floats. The file is included once per Highway target, so it has no include guard; hwy/highway.h comes before it. It
// includes storage-inl.h.

#include <cstddef>
#include <cstring>

#include "base/dtype.h"
#include "ops/cpu/simd/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<Floats>;
constexpr Floats floats_tag;
constexpr std::size_t vector_lanes = hn::MaxLanes(floats_tag);
constexpr std::size_t vector_count = 16 / vector_lanes;

struct Sixteen {
  FloatVec v[vector_count];
};

/// Applies f to the vectors of the arguments.
template <class F, class... Args>
HWY_INLINE Sixteen Map(const F& f, const Args&... args) {
  Sixteen result;
  for (std::size_t k = 0; k < vector_count; ++k) result.v[k] = f(args.v[k]...);
  return result;
}

HWY_INLINE Sixteen Splat(float value) {
  Sixteen result;
  for (std::size_t k = 0; k < vector_count; ++k) result.v[k] = hn::Set(floats_tag, value);
  return result;
}
HWY_INLINE Sixteen Add(const Sixteen& a, const Sixteen& b) {
  return Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}
HWY_INLINE Sixteen Sub(const Sixteen& a, const Sixteen& b) {
  return Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Sub(x, y); }, a, b);
}
HWY_INLINE Sixteen Mul(const Sixteen& a, const Sixteen& b) {
  return Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Mul(x, y); }, a, b);
}
HWY_INLINE Sixteen Max(const Sixteen& a, const Sixteen& b) {
  return Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Max(x, y); }, a, b);
}
/// a * b + c.
HWY_INLINE Sixteen MulAdd(const Sixteen& a, const Sixteen& b, const Sixteen& c) {
  return Map([](FloatVec x, FloatVec y, FloatVec z) HWY_ATTR { return hn::MulAdd(x, y, z); }, a, b, c);
}
/// c - a * b.
HWY_INLINE Sixteen NegMulAdd(const Sixteen& a, const Sixteen& b, const Sixteen& c) {
  return Map([](FloatVec x, FloatVec y, FloatVec z) HWY_ATTR { return hn::NegMulAdd(x, y, z); }, a, b, c);
}

template <class S>
HWY_INLINE Sixteen Load16(const S* from) {
  Sixteen result;
  for (std::size_t k = 0; k < vector_count; ++k) result.v[k] = LoadAs(floats_tag, from + k * vector_lanes);
  return result;
}
template <class S>
HWY_INLINE void Store16(const Sixteen& value, S* to) {
  for (std::size_t k = 0; k < vector_count; ++k) StoreAs(floats_tag, value.v[k], to + k * vector_lanes);
}
/// The values as they are read again after a store as S.
template <class S>
HWY_INLINE Sixteen Rounded(const Sixteen& value) {
  return Map([](FloatVec x) HWY_ATTR { return AsStored<S>(floats_tag, x); }, value);
}

/// Lanes 0..15 combined by the tree (i, i + 8), (i, i + 4), (i, i + 2), (0, 1).
template <class Combine>
HWY_INLINE float Tree(const Sixteen& lanes, const Combine& combine) {
  alignas(64) float x[16];
  Store16(lanes, x);
  const hn::CappedTag<float, 4> four;
  const auto a = combine(hn::Load(four, x), hn::Load(four, x + 8));
  const auto b = combine(hn::Load(four, x + 4), hn::Load(four, x + 12));
  const auto c = combine(a, b);
  const auto d = combine(c, hn::Shuffle1032(c));
  return hn::GetLane(combine(d, hn::Shuffle2301(d)));
}
HWY_INLINE float Sum(const Sixteen& lanes) {
  return Tree(lanes, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}
HWY_INLINE float Largest(const Sixteen& lanes) {
  return Tree(lanes, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
}

/// How a whole group of sixteen columns is read and written.
struct WholeGroup {
  template <class S>
  HWY_INLINE Sixteen Load(const S* from) const {
    return Load16(from);
  }
  /// Loads sixteen numbers, with `absent` in lanes that do not exist.
  template <class S>
  HWY_INLINE Sixteen LoadOr(const S* from, float /*absent*/) const {
    return Load16(from);
  }
  template <class S>
  HWY_INLINE void Store(const Sixteen& value, S* to) const {
    Store16(value, to);
  }
  /// Stores past the caches where `stream`. Then `to` is a multiple of 64 bytes, for bf16 of 32.
  template <class S>
  HWY_INLINE void Store(const Sixteen& value, S* to, bool stream) const {
    if (!stream) return Store16(value, to);
    for (std::size_t k = 0; k < vector_count; ++k) StreamAs(floats_tag, value.v[k], to + k * vector_lanes);
  }
  /// Loads fp32 numbers that are stored in halves (tensor/bfloat16.h).
  HWY_INLINE Sixteen Join(const BFloat16* high, const std::uint16_t* low) const {
    Sixteen result;
    for (std::size_t k = 0; k < vector_count; ++k)
      result.v[k] = JoinHalves(floats_tag, high + k * vector_lanes, low + k * vector_lanes);
    return result;
  }
  HWY_INLINE void StoreHigh(const Sixteen& value, BFloat16* to) const {
    for (std::size_t k = 0; k < vector_count; ++k) StoreHighAs(floats_tag, value.v[k], to + k * vector_lanes);
  }
  HWY_INLINE void StoreLow(const Sixteen& value, std::uint16_t* to) const {
    for (std::size_t k = 0; k < vector_count; ++k) StoreLowAs(floats_tag, value.v[k], to + k * vector_lanes);
  }
  /// Keeps the lanes that exist; others become zero.
  HWY_INLINE Sixteen Keep(const Sixteen& value) const { return value; }
};

/// How the last columns of a row are read and written. Lanes that do not exist read as zero and are not written.
struct PartGroup {
  std::size_t size;
  template <class S>
  HWY_INLINE Sixteen Load(const S* from) const {
    return LoadOr(from, 0);
  }
  template <class S>
  HWY_INLINE Sixteen LoadOr(const S* from, float absent) const {
    alignas(64) S x[16];
    Store16(Splat(absent), x);
    std::memcpy(x, from, size * sizeof(S));
    return Load16(x);
  }
  template <class S>
  HWY_INLINE void Store(const Sixteen& value, S* to) const {
    alignas(64) S x[16];
    Store16(value, x);
    std::memcpy(to, x, size * sizeof(S));
  }
  template <class S>
  HWY_INLINE void Store(const Sixteen& value, S* to, bool /*stream*/) const {
    Store(value, to);
  }
  HWY_INLINE Sixteen Join(const BFloat16* high, const std::uint16_t* low) const {
    alignas(64) BFloat16 upper[16] = {};
    alignas(64) std::uint16_t lower[16] = {};
    std::memcpy(upper, high, size * sizeof(BFloat16));
    std::memcpy(lower, low, size * sizeof(std::uint16_t));
    return WholeGroup{}.Join(upper, lower);
  }
  HWY_INLINE void StoreHigh(const Sixteen& value, BFloat16* to) const {
    alignas(64) BFloat16 x[16];
    WholeGroup{}.StoreHigh(value, x);
    std::memcpy(to, x, size * sizeof(BFloat16));
  }
  HWY_INLINE void StoreLow(const Sixteen& value, std::uint16_t* to) const {
    alignas(64) std::uint16_t x[16];
    WholeGroup{}.StoreLow(value, x);
    std::memcpy(to, x, size * sizeof(std::uint16_t));
  }
  HWY_INLINE Sixteen Keep(const Sixteen& value) const {
    alignas(64) float x[16];
    Store16(value, x);
    for (std::size_t i = size; i < 16; ++i) x[i] = 0;
    return Load16(x);
  }
};

/// Calls body(column, group) for every sixteen columns from 0, the last ones as a PartGroup. A template that loops this way is
/// HWY_FLATTEN: the compiler takes its bodies for shared code and else leaves a call in the loop.
template <class Body>
HWY_INLINE void ForColumns(std::int64_t columns, const Body& body) {
  std::int64_t j = 0;
  for (; j + 16 <= columns; j += 16) body(j, WholeGroup{});
  if (j < columns) body(j, PartGroup{static_cast<std::size_t>(columns - j)});
}

/// Calls body(S()) for elements of `type`: float or BFloat16.
template <class Body>
HWY_INLINE void WithStorage(DType type, const Body& body) {
  if (type == DType::bf16) return body(BFloat16());
  body(float());
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
