// AdamW, stochastic gradient descent, LARS and Muon's direction, each in one pass over weights, gradient and what the rule keeps.
// The step's scalars are read where they lie, in the device's memory.

#include <cmath>

#include "ops/cuda/device/each.cuh"
#include "ops/cuda/device/philox.cuh"

namespace lockstep::ops::cuda {
namespace {

/// Weights of type W, and where new ones go too (null: nowhere).
template <class W>
struct Weights {
  W* weights;
  float* same;
  BFloat16* narrow;
  __device__ float get(std::int64_t i) const { return load(weights + i); }
  __device__ void put(std::int64_t i, float value) const {
    store(weights + i, value);
    if (same != nullptr) same[i] = value;
    if (narrow != nullptr) narrow[i] = to_halves(value).high;
  }
};

/// The master copy is in halves (tensor/bfloat16.h).
template <>
struct Weights<Halves> {
  BFloat16* high;
  std::uint16_t* low;
  __device__ float get(std::int64_t i) const { return from_halves({high[i], low[i]}); }
  __device__ void put(std::int64_t i, float value) const {
    const Halves halves = to_halves(value);
    high[i] = halves.high;
    low[i] = halves.low;
  }
};

template <class W, class Tensors>
Weights<W> weights_of(const Tensors& tensors) {
  if constexpr (std::is_same_v<W, Halves>) {
    return {data_of<BFloat16>(tensors.publish), data_of<std::uint16_t>(tensors.low)};
  } else {
    const bool apart = tensors.publish.data != tensors.weights.data, narrow = tensors.publish.dtype == DType::bf16;
    return {data_of<W>(tensors.weights), apart && !narrow ? data_of<float>(tensors.publish) : nullptr,
            apart && narrow ? data_of<BFloat16>(tensors.publish) : nullptr};
  }
}

/// How a bf16 value is rounded that is stored: to the nearest, or by random numbers.
struct Rounding {
  RandomRounding random = {};
  bool by_numbers = false;
  explicit Rounding(const RandomRounding* given) {
    by_numbers = given != nullptr;
    if (by_numbers) random = *given;
  }
  /// The word of element `i` for slots 2 pair and 2 pair + 1.
  __device__ std::uint32_t word(std::int64_t i, std::uint32_t pair) const {
    const std::int64_t e = random.global(i);
    const Words counter{{static_cast<std::uint32_t>(e / 4), pair, static_cast<std::uint32_t>(random.update),
                         static_cast<std::uint32_t>(random.update >> 32U)}};
    return philox(counter, random.key[0], random.key[1]).at(static_cast<std::uint32_t>(e % 4));
  }
};

/// What is read again after a store as S, rounded by a number below 2^16.
template <class S>
__device__ __forceinline__ float rounded_by(float value, std::uint32_t number) {
  if constexpr (!std::is_same_v<S, BFloat16>) return value;
  if (value != value) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + number) & 0xFFFF0000U);
}

/// The roundings of one element. Weights that are rounded to the nearest are so where they are stored.
template <class W, class M>
struct Roundings {
  bool by_numbers = false;
  std::uint32_t moments = 0, weights = 0;
  __device__ Roundings(const Rounding& rounding, std::int64_t i) : by_numbers(rounding.by_numbers) {
    if (!by_numbers) return;
    if constexpr (std::is_same_v<M, BFloat16>) moments = rounding.word(i, 0);
    if constexpr (std::is_same_v<W, BFloat16>) weights = rounding.word(i, 1);
  }
  __device__ float first(float x) const { return by_numbers ? rounded_by<M>(x, moments & 0xFFFFU) : as_stored<M>(x); }
  __device__ float second(float x) const { return by_numbers ? rounded_by<M>(x, moments >> 16U) : as_stored<M>(x); }
  __device__ float weight(float x) const { return by_numbers ? rounded_by<W>(x, weights & 0xFFFFU) : x; }
};

/// The step is taken with the moments as they are stored.
template <class W, class M>
struct AdamWStep {
  Weights<W> weights;
  M *exp_avg, *exp_avg_sq;
  const float *gradient, *given;
  AdamW rule;
  Rounding rounding;
  __device__ void operator()(std::int64_t i) const {
    if (given[StepScalars::finite] == 0) return;
    const double rate = given[StepScalars::learning_rate];
    const auto keep = static_cast<float>(1 - rate * rule.weight_decay);
    const auto scale = static_cast<float>(rate / given[StepScalars::bias_correction1]);
    const auto correction = static_cast<float>(1 / sqrt(static_cast<double>(given[StepScalars::bias_correction2])));
    const Roundings<W, M> round(rounding, i);
    const float g = given[StepScalars::clip_factor] * gradient[i];
    const float m = round.first(fmaf(1 - rule.beta1, g, rule.beta1 * load(exp_avg + i)));
    const float v = round.second(fmaf((1 - rule.beta2) * g, g, rule.beta2 * load(exp_avg_sq + i)));
    const float step = scale * m / fmaf(sqrtf(v), correction, rule.eps);
    const float w = round.weight(keep * weights.get(i) - step);
    store(exp_avg + i, m);
    store(exp_avg_sq + i, v);
    weights.put(i, w);
  }
};

/// A step of stochastic gradient descent or LARS, which is taken with the buffer as it is stored.
template <class W, class M>
struct MomentumStep {
  Weights<W> weights;
  M* buffer;  // may be null
  const float *gradient, *given;
  float decay, momentum, trust;
  bool clips, lars;
  Rounding rounding;
  __device__ void operator()(std::int64_t i) const {
    if (given[StepScalars::finite] == 0) return;
    const float learning_rate = given[StepScalars::learning_rate];
    const float clip = clips ? given[StepScalars::clip_factor] : 1.0F;
    const float into = lars ? learning_rate * trust : 1.0F, rate = lars ? 1.0F : learning_rate;
    const Roundings<W, M> round(rounding, i);
    const float before = weights.get(i);
    float step = into * fmaf(decay, before, clip * gradient[i]);
    if (buffer != nullptr) {
      step = round.first(fmaf(momentum, load(buffer + i), step));
      store(buffer + i, step);
    }
    weights.put(i, round.weight(before - rate * step));
  }
};

template <class M>
struct Direction {
  float* direction;
  M* buffer;
  const float *gradient, *given;
  float momentum;
  Rounding rounding;
  __device__ void operator()(std::int64_t i) const {
    if (given[StepScalars::finite] == 0) return;
    const Roundings<float, M> round(rounding, i);
    const float g = (1 - momentum) * (given[StepScalars::clip_factor] * gradient[i]);
    const float b = round.first(fmaf(momentum, load(buffer + i), g));
    store(buffer + i, b);
    direction[i] = fmaf(momentum, b, g);
  }
};

class CudaUpdate final : public Update {
 public:
  explicit CudaUpdate(const Context& context) : Update(context.observer), context_(context) {}

 private:
  /// Calls body(W(), M()) for the weights of a call and moments of a type.
  template <class Tensors, class Body>
  static void with_types(const Tensors& tensors, DType moments, const Body& body) {
    const auto of_weights = [&](auto w) { with_storage(moments, [&](auto m) { body(w, m); }); };
    tensors.low ? of_weights(Halves()) : with_storage(tensors.weights.dtype, of_weights);
  }

  void do_adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars,
                const RandomRounding* random) override {
    with_types(tensors, tensors.exp_avg.dtype, [&]<class W, class M>(W, M) {
      for_elements(
          context_, tensors.gradient.elements(),
          AdamWStep<W, M>{weights_of<W>(tensors), data_of<M>(tensors.exp_avg), data_of<M>(tensors.exp_avg_sq),
                          data_of<const float>(tensors.gradient), data_of<const float>(scalars.values), rule, Rounding(random)});
    });
  }

  void do_sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars, const RandomRounding* random) override {
    with_momentum(tensors, {.momentum = rule.momentum, .weight_decay = rule.weight_decay}, rule.clips, false, scalars, random);
  }

  void do_lars(const SgdTensors& tensors, const Lars& rule, const StepScalars& scalars, const RandomRounding* random) override {
    with_momentum(tensors, rule, true, true, scalars, random);
  }

  void with_momentum(const SgdTensors& tensors, const Lars& rule, bool clips, bool lars, const StepScalars& scalars,
                     const RandomRounding* random) {
    with_types(tensors, tensors.momentum_buffer ? tensors.momentum_buffer.dtype : DType::f32, [&]<class W, class M>(W, M) {
      for_elements(context_, tensors.gradient.elements(),
                   MomentumStep<W, M>{weights_of<W>(tensors), data_of<M>(tensors.momentum_buffer),
                                      data_of<const float>(tensors.gradient), data_of<const float>(scalars.values),
                                      rule.weight_decay, rule.momentum, rule.trust, clips, lars, Rounding(random)});
    });
  }

  void do_direction(const DirectionTensors& tensors, float momentum, const StepScalars& scalars,
                    const RandomRounding* random) override {
    with_storage(tensors.momentum_buffer.dtype, [&]<class M>(M) {
      for_elements(
          context_, tensors.gradient.elements(),
          Direction<M>{data_of<float>(tensors.direction), data_of<M>(tensors.momentum_buffer),
                       data_of<const float>(tensors.gradient), data_of<const float>(scalars.values), momentum, Rounding(random)});
    });
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Update> make_update(const Context& context) { return std::make_unique<CudaUpdate>(context); }

}  // namespace lockstep::ops::cuda
