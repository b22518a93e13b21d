// AdamW, stochastic gradient descent, LARS and Muon's direction, each in one pass over weights, gradient and what the rule keeps.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/update.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/check.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/plain/adamw_passes.h"
// clang-format off: lanes-inl.h comes first
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/philox-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// Weights of type W, read and written from element 0 on, and where new ones go too (null: nowhere).
template <class W>
class Weights {
 public:
  template <class Tensors>
  explicit Weights(const Tensors& tensors) : weights_(data_of<W>(tensors.weights)) {
    const bool apart = tensors.publish.data != tensors.weights.data, narrow = tensors.publish.dtype == DType::bf16;
    same_ = apart && !narrow ? floats(tensors.publish) : nullptr;
    narrow_ = apart && narrow ? data_of<BFloat16>(tensors.publish) : nullptr;
  }
  template <class Group>
  HWY_INLINE Sixteen Load(const Group& group, std::int64_t j) const {
    return group.Load(weights_ + j);
  }
  template <class Group>
  HWY_INLINE void Store(const Group& group, const Sixteen& value, std::int64_t j) const {
    group.Store(value, weights_ + j);
    if (same_ != nullptr) group.Store(value, same_ + j);
    if (narrow_ != nullptr) group.StoreHigh(value, narrow_ + j);
  }

 private:
  W* weights_;
  float* same_;
  BFloat16* narrow_;
};

/// The master copy is in halves (tensor/bfloat16.h).
template <>
class Weights<Halves> {
 public:
  template <class Tensors>
  explicit Weights(const Tensors& tensors)
      : high_(data_of<BFloat16>(tensors.publish)), low_(data_of<std::uint16_t>(tensors.low)) {}
  template <class Group>
  HWY_INLINE Sixteen Load(const Group& group, std::int64_t j) const {
    return group.Join(high_ + j, low_ + j);
  }
  template <class Group>
  HWY_INLINE void Store(const Group& group, const Sixteen& value, std::int64_t j) const {
    group.StoreHigh(value, high_ + j);
    group.StoreLow(value, low_ + j);
  }

 private:
  BFloat16* high_;
  std::uint16_t* low_;
};

/// The random numbers of neighbouring elements of a parameter, from `first` on: those of slots 0 and 1, or of slot 2.
class RandomWords {
 public:
  RandomWords(const RandomRounding& random, std::int64_t first, std::uint32_t pair)
      : random_(random), first_(first), pair_(pair), behind_(static_cast<std::size_t>(first % 4)) {}
  /// For columns [column, column + 16), which are asked for in order.
  HWY_INLINE const std::uint32_t* At(std::int64_t column) {
    if (column % 64 == 0) {
      Draw(first_ + column, words_);
      if (behind_ != 0) Draw(first_ + column + 64, words_ + 64);
    }
    return words_ + behind_ + static_cast<std::size_t>(column % 64);
  }

 private:
  HWY_INLINE void Draw(std::int64_t from, std::uint32_t* to) const {
    Draw64(to, static_cast<std::uint32_t>(from / 4), pair_, static_cast<std::uint32_t>(random_.update),
           static_cast<std::uint32_t>(random_.update >> 32), random_.key[0], random_.key[1]);
  }
  const RandomRounding& random_;
  std::int64_t first_;
  std::uint32_t pair_;
  std::size_t behind_;
  alignas(64) std::uint32_t words_[128];
};

/// What is read again after a store as S, rounded by the low (or the high) halves of sixteen words.
template <class S, bool high>
HWY_INLINE Sixteen RoundedBy(const Sixteen& value, const std::uint32_t* words) {
  if constexpr (!std::is_same_v<S, BFloat16>) return value;
  Sixteen result;
  for (std::size_t k = 0; k < vector_count; ++k) {
    const auto word = hn::LoadU(words_tag, words + k * vector_lanes);
    const auto half = high ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(words_tag, 0xFFFF));
    const auto sum = hn::Add(hn::BitCast(words_tag, value.v[k]), half);
    const auto kept = hn::BitCast(floats_tag, hn::And(sum, hn::Set(words_tag, 0xFFFF0000U)));
    result.v[k] = hn::IfThenElse(hn::IsNaN(value.v[k]), value.v[k], kept);
  }
  return result;
}

/// Rounding of weights W and moments M to the nearest.
template <class W, class M>
struct Nearest {
  HWY_INLINE void Begin(std::int64_t /*column*/) const {}
  HWY_INLINE Sixteen First(const Sixteen& moment) const { return Rounded<M>(moment); }
  HWY_INLINE Sixteen Second(const Sixteen& moment) const { return Rounded<M>(moment); }
  HWY_INLINE Sixteen Weights(const Sixteen& weights) const { return weights; }
};

/// And by random numbers, of elements that are neighbours in their parameter.
template <class W, class M>
class Random {
 public:
  Random(const RandomRounding& random, std::int64_t first) : slots_(random, first, 0), weights_(random, first, 1) {}
  HWY_INLINE void Begin(std::int64_t column) {
    if constexpr (std::is_same_v<M, BFloat16>) of_slots_ = slots_.At(column);
    if constexpr (std::is_same_v<W, BFloat16>) of_weights_ = weights_.At(column);
  }
  HWY_INLINE Sixteen First(const Sixteen& moment) const { return RoundedBy<M, false>(moment, of_slots_); }
  HWY_INLINE Sixteen Second(const Sixteen& moment) const { return RoundedBy<M, true>(moment, of_slots_); }
  HWY_INLINE Sixteen Weights(const Sixteen& weights) const { return RoundedBy<W, false>(weights, of_weights_); }

 private:
  RandomWords slots_, weights_;
  const std::uint32_t *of_slots_ = nullptr, *of_weights_ = nullptr;
};

/// Calls body(W(), M(), rounding) for the weights of a call and moments of a type; `random` null: to the nearest.
template <class Tensors, class Body>
HWY_INLINE void WithRounding(const Tensors& tensors, DType moments, const RandomRounding* random, std::int64_t first,
                             const Body& body) {
  const auto of_weights = [&](auto w) HWY_ATTR {
    WithStorage(moments, [&](auto m) HWY_ATTR {
      using W = decltype(w);
      using M = decltype(m);
      if (random == nullptr) {
        Nearest<W, M> nearest;
        return body(w, m, nearest);
      }
      Random<W, M> by_numbers(*random, random->global(first));
      body(w, m, by_numbers);
    });
  };
  tensors.low ? of_weights(Halves()) : WithStorage(tensors.weights.dtype, of_weights);
}

/// Elements [first, last) of a call's tensors.
struct Part {
  std::int64_t first, last;
};

/// factors: clip, beta1, 1 - beta1, beta2, 1 - beta2, 1 - lr decay, lr / bc1, 1 / sqrt(bc2), eps. The step is taken with the
/// moments as they are stored.
template <class W, class M, class Rounding>
HWY_FLATTEN void AdamWRangeAs(const AdamWTensors& tensors, const float (&factors)[9], const Part& part, Rounding& rounding) {
  const Weights<W> weights(tensors);
  M *exp_avg = data_of<M>(tensors.exp_avg), *exp_avg_sq = data_of<M>(tensors.exp_avg_sq);
  const float* gradient = floats(tensors.gradient);
  const Sixteen clip = Splat(factors[0]), beta1 = Splat(factors[1]), rest1 = Splat(factors[2]), beta2 = Splat(factors[3]),
                rest2 = Splat(factors[4]), keep = Splat(factors[5]), rate = Splat(factors[6]), correction = Splat(factors[7]),
                eps = Splat(factors[8]);
  ForColumns(part.last - part.first, [&](std::int64_t column, auto group) HWY_ATTR {
    const std::int64_t j = part.first + column;
    rounding.Begin(column);
    const Sixteen g = Mul(clip, group.Load(gradient + j));
    const Sixteen m = rounding.First(MulAdd(rest1, g, Mul(beta1, group.Load(exp_avg + j))));
    const Sixteen v = rounding.Second(MulAdd(Mul(rest2, g), g, Mul(beta2, group.Load(exp_avg_sq + j))));
    const Sixteen root = Map([](FloatVec x) HWY_ATTR { return hn::Sqrt(x); }, v);
    const Sixteen step =
        Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Div(x, y); }, Mul(rate, m), MulAdd(root, correction, eps));
    const Sixteen w = rounding.Weights(Sub(Mul(keep, weights.Load(group, j)), step));
    group.Store(m, exp_avg + j);
    group.Store(v, exp_avg_sq + j);
    weights.Store(group, w, j);
  });
}

void AdamWRange(const AdamWTensors& tensors, const float (&factors)[9], const RandomRounding* random, std::int64_t first,
                std::int64_t last) {
  WithRounding(tensors, tensors.exp_avg.dtype, random, first, [&](auto w, auto m, auto& rounding) HWY_ATTR {
    AdamWRangeAs<decltype(w), decltype(m)>(tensors, factors, {first, last}, rounding);
  });
}

/// factors: clip, decay, momentum, what goes into the momentum, lr. The step is taken with the buffer as it is stored.
template <class W, class M, class Rounding>
HWY_FLATTEN void SgdRangeAs(const SgdTensors& tensors, const float (&factors)[5], const Part& part, Rounding& rounding) {
  const Weights<W> weights(tensors);
  M* buffer = tensors.momentum_buffer ? data_of<M>(tensors.momentum_buffer) : nullptr;
  const float* gradient = floats(tensors.gradient);
  const Sixteen clip = Splat(factors[0]), decay = Splat(factors[1]), momentum = Splat(factors[2]), into = Splat(factors[3]),
                rate = Splat(factors[4]);
  ForColumns(part.last - part.first, [&](std::int64_t column, auto group) HWY_ATTR {
    const std::int64_t j = part.first + column;
    rounding.Begin(column);
    const Sixteen before = weights.Load(group, j);
    Sixteen step = Mul(into, MulAdd(decay, before, Mul(clip, group.Load(gradient + j))));
    if (buffer != nullptr) {
      step = rounding.First(MulAdd(momentum, group.Load(buffer + j), step));
      group.Store(step, buffer + j);
    }
    weights.Store(group, rounding.Weights(Sub(before, Mul(rate, step))), j);
  });
}

void SgdRange(const SgdTensors& tensors, const float (&factors)[5], const RandomRounding* random, std::int64_t first,
              std::int64_t last) {
  const DType moments = tensors.momentum_buffer ? tensors.momentum_buffer.dtype : DType::f32;
  WithRounding(tensors, moments, random, first, [&](auto w, auto m, auto& rounding) HWY_ATTR {
    SgdRangeAs<decltype(w), decltype(m)>(tensors, factors, {first, last}, rounding);
  });
}

/// factors: clip, momentum, 1 - momentum. The direction is that by the buffer as it is stored.
template <class M, class Rounding>
HWY_FLATTEN void DirectionRangeAs(const DirectionTensors& tensors, const float (&factors)[3], const Part& part,
                                  Rounding& rounding) {
  M* buffer = data_of<M>(tensors.momentum_buffer);
  const float* gradient = floats(tensors.gradient);
  float* direction = floats(tensors.direction);
  const Sixteen clip = Splat(factors[0]), kept = Splat(factors[1]), fresh = Splat(factors[2]);
  ForColumns(part.last - part.first, [&](std::int64_t column, auto group) HWY_ATTR {
    const std::int64_t j = part.first + column;
    rounding.Begin(column);
    const Sixteen g = Mul(fresh, Mul(clip, group.Load(gradient + j)));
    const Sixteen b = rounding.First(MulAdd(kept, group.Load(buffer + j), g));
    group.Store(b, buffer + j);
    group.Store(MulAdd(kept, b, g), direction + j);
  });
}

void DirectionRange(const DirectionTensors& tensors, const float (&factors)[3], const RandomRounding* random, std::int64_t first,
                    std::int64_t last) {
  WithStorage(tensors.momentum_buffer.dtype, [&](auto m) HWY_ATTR {
    using M = decltype(m);
    if (random == nullptr) {
      Nearest<float, M> nearest;
      return DirectionRangeAs<M>(tensors, factors, {first, last}, nearest);
    }
    Random<float, M> by_numbers(*random, random->global(first));
    DirectionRangeAs<M>(tensors, factors, {first, last}, by_numbers);
  });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(AdamWRange);
HWY_EXPORT(SgdRange);
HWY_EXPORT(DirectionRange);

constexpr std::int64_t tile = 8192;

class CpuUpdate final : public Update {
 public:
  CpuUpdate(const Context& context, std::span<float> between) : Update(context.observer), context_(context), between_(between) {
    const ScopedIsa scope(context.isa);
    if (!between.empty()) passes_ = adamw_passes();
    adamw_ = &HWY_DYNAMIC_DISPATCH(AdamWRange);
    sgd_ = &HWY_DYNAMIC_DISPATCH(SgdRange);
    direction_ = &HWY_DYNAMIC_DISPATCH(DirectionRange);
  }

 private:
  void do_adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars,
                const RandomRounding* random) override {
    const float* const given = floats(scalars.values);
    if (given[StepScalars::finite] == 0) return;
    const double rate = given[StepScalars::learning_rate];
    const float factors[9] = {given[StepScalars::clip_factor],
                              rule.beta1,
                              1 - rule.beta1,
                              rule.beta2,
                              1 - rule.beta2,
                              static_cast<float>(1 - rate * rule.weight_decay),
                              static_cast<float>(rate / given[StepScalars::bias_correction1]),
                              static_cast<float>(1 / std::sqrt(static_cast<double>(given[StepScalars::bias_correction2]))),
                              rule.eps};
    if (!passes_.empty()) return adamw_in_passes(tensors, factors, random);
    deal(tensors.gradient.elements(), random,
         [&](std::int64_t first, std::int64_t last) { adamw_(tensors, factors, random, first, last); });
  }

  void adamw_in_passes(const AdamWTensors& tensors, const float (&factors)[9], const RandomRounding* random) {
    const bool wide = (tensors.low || tensors.weights.dtype == DType::f32) && tensors.exp_avg.dtype == DType::f32;
    demand(wide && random == nullptr, "adamw", "operation by operation it keeps f32 alone");
    const std::int64_t count = tensors.gradient.elements(), most = std::ssize(between_) / 3;
    for (std::int64_t begin = 0; begin < count; begin += most) {
      float* const weights = tensors.low ? between_.data() + 2 * most : floats(tensors.weights) + begin;
      const AdamWPass pass{tensors, factors, begin, weights, between_.data(), between_.data() + most};
      for (const AdamWPassKernel kernel : passes_) {
        context_.deal(std::min(most, count - begin), tile,
                      [&](std::int64_t first, std::int64_t last) { kernel(pass, first, last); });
      }
    }
  }

  void do_sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars, const RandomRounding* random) override {
    const float* const given = floats(scalars.values);
    if (given[StepScalars::finite] == 0) return;
    with_momentum(tensors,
                  {rule.clips ? given[StepScalars::clip_factor] : 1.0F, rule.weight_decay, rule.momentum, 1,
                   given[StepScalars::learning_rate]},
                  random);
  }

  void do_lars(const SgdTensors& tensors, const Lars& rule, const StepScalars& scalars, const RandomRounding* random) override {
    const float* const given = floats(scalars.values);
    if (given[StepScalars::finite] == 0) return;
    with_momentum(
        tensors,
        {given[StepScalars::clip_factor], rule.weight_decay, rule.momentum, given[StepScalars::learning_rate] * rule.trust, 1},
        random);
  }

  void with_momentum(const SgdTensors& tensors, const float (&factors)[5], const RandomRounding* random) {
    deal(tensors.gradient.elements(), random,
         [&](std::int64_t first, std::int64_t last) { sgd_(tensors, factors, random, first, last); });
  }

  void do_direction(const DirectionTensors& tensors, float momentum, const StepScalars& scalars,
                    const RandomRounding* random) override {
    const float* const given = floats(scalars.values);
    if (given[StepScalars::finite] == 0) return;
    const float factors[3] = {given[StepScalars::clip_factor], momentum, 1 - momentum};
    deal(tensors.gradient.elements(), random,
         [&](std::int64_t first, std::int64_t last) { direction_(tensors, factors, random, first, last); });
  }

  /// body(first, last) for all elements, in parts that are neighbours in their parameter where numbers are drawn.
  template <class Body>
  void deal(std::int64_t count, const RandomRounding* random, const Body& body) {
    context_.deal(count, tile, [&](std::int64_t first, std::int64_t last) {
      while (random != nullptr && first < last) {
        const std::int64_t left = random->columns - (random->skipped + first) % random->columns;
        const std::int64_t end = std::min(last, first + left);
        body(first, end);
        first = end;
      }
      if (first < last) body(first, last);
    });
  }

  Context context_;
  std::span<float> between_;                   // what passes leave for each other
  std::span<const AdamWPassKernel> passes_{};  // empty: AdamW is one pass
  decltype(&HWY_STATIC_DISPATCH(AdamWRange)) adamw_;
  decltype(&HWY_STATIC_DISPATCH(SgdRange)) sgd_;
  decltype(&HWY_STATIC_DISPATCH(DirectionRange)) direction_;
};

}  // namespace

std::unique_ptr<Update> make_update(const Context& context, std::span<float> between) {
  return std::make_unique<CpuUpdate>(context, between);
}

}  // namespace lockstep::ops::cpu
#endif
