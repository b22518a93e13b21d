#include <cmath>
#include <tuple>

#include "base/rng.h"
#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

/// Stores element i of a slot, rounded as the call asks for.
class Storing {
 public:
  explicit Storing(const RandomRounding* random) : random_(random), rng_(0, "") {
    if (random != nullptr) rng_ = CounterRng::with_key(random->key);
  }
  void operator()(const Tensor& tensor, std::int64_t i, double value, int slot) const {
    if (random_ == nullptr || tensor.dtype == DType::f32) return put(tensor, i, value);
    const auto pair = static_cast<std::uint64_t>(slot / 2);
    const std::uint32_t word = rng_.word(static_cast<std::uint64_t>(random_->global(i)) + (pair << 34U), random_->update);
    const std::uint32_t half = slot % 2 == 0 ? word & 0xFFFFU : word >> 16U;
    reinterpret_cast<BFloat16*>(tensor.data)[i] = to_bfloat16_by(static_cast<float>(value), half);
  }

 private:
  const RandomRounding* random_;
  CounterRng rng_;
};

/// The weights that a call updates, one at a time.
template <class Tensors>
class Weights {
 public:
  explicit Weights(const Tensors& tensors) : tensors_(tensors) {}
  float operator[](std::int64_t i) const {
    return tensors_.low ? joined(tensors_.publish, tensors_.low, i) : get(tensors_.weights, i);
  }
  void set(std::int64_t i, double value, const Storing& store) const {
    const auto& [weights, publish] = std::tie(tensors_.weights, tensors_.publish);
    if (tensors_.low) return put_halves(publish, tensors_.low, i, static_cast<float>(value));
    store(weights, i, value, RandomRounding::weights_slot);
    if (!publish || publish.data == weights.data) return;
    publish.dtype == DType::bf16 ? put_halves(publish, {}, i, get(weights, i)) : put(publish, i, get(weights, i));
  }

 private:
  const Tensors& tensors_;
};

class UpdateReference final : public Update {
 public:
  using Update::Update;

 private:
  void do_adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars,
                const RandomRounding* random) override {
    const Weights weights(tensors);
    const Tensor &gradient = tensors.gradient, &exp_avg = tensors.exp_avg, &exp_avg_sq = tensors.exp_avg_sq;
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    const double rate = at(values, StepScalars::learning_rate), clip = at(values, StepScalars::clip_factor);
    const double correction1 = at(values, StepScalars::bias_correction1);
    const double correction2 = at(values, StepScalars::bias_correction2);
    const double beta1 = rule.beta1, beta2 = rule.beta2;
    const Storing store(random);
    for (std::int64_t i = 0; i < gradient.elements(); ++i) {
      const double g = clip * at(gradient, i);
      store(exp_avg, i, beta1 * get(exp_avg, i) + (1 - beta1) * g, 0);
      store(exp_avg_sq, i, beta2 * get(exp_avg_sq, i) + (1 - beta2) * g * g, 1);
      const double m = get(exp_avg, i), v = get(exp_avg_sq, i), p = weights[i] * (1 - rate * rule.weight_decay);
      weights.set(i, p - rate / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + rule.eps), store);
    }
  }
  void do_sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars, const RandomRounding* random) override {
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    with_momentum(tensors, random,
                  {.clip = rule.clips ? at(values, StepScalars::clip_factor) : 1.0,
                   .decay = rule.weight_decay,
                   .momentum = rule.momentum,
                   .into_momentum = 1,
                   .rate = at(values, StepScalars::learning_rate)});
  }
  void do_lars(const SgdTensors& tensors, const Lars& rule, const StepScalars& scalars, const RandomRounding* random) override {
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    const double rate = at(values, StepScalars::learning_rate);
    with_momentum(tensors, random,
                  {.clip = at(values, StepScalars::clip_factor),
                   .decay = rule.weight_decay,
                   .momentum = rule.momentum,
                   .into_momentum = rate * rule.trust,
                   .rate = 1});
  }
  void do_direction(const DirectionTensors& tensors, float momentum, const StepScalars& scalars,
                    const RandomRounding* random) override {
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    const double clip = at(values, StepScalars::clip_factor), kept = momentum;
    const Storing store(random);
    for (std::int64_t i = 0; i < tensors.gradient.elements(); ++i) {
      const double g = clip * at(tensors.gradient, i);
      store(tensors.momentum_buffer, i, kept * get(tensors.momentum_buffer, i) + (1 - kept) * g, 0);
      put(tensors.direction, i, (1 - kept) * g + kept * get(tensors.momentum_buffer, i));
    }
  }

  struct MomentumFactors {
    double clip, decay, momentum, into_momentum, rate;
  };
  static void with_momentum(const SgdTensors& tensors, const RandomRounding* random, const MomentumFactors& factors) {
    const Weights weights(tensors);
    const Tensor& momentum_buffer = tensors.momentum_buffer;
    const Storing store(random);
    for (std::int64_t i = 0; i < tensors.gradient.elements(); ++i) {
      double step = factors.into_momentum * (factors.clip * at(tensors.gradient, i) + factors.decay * weights[i]);
      if (momentum_buffer) {
        store(momentum_buffer, i, factors.momentum * get(momentum_buffer, i) + step, 0);
        step = get(momentum_buffer, i);
      }
      weights.set(i, weights[i] - factors.rate * step, store);
    }
  }
};

}  // namespace

std::unique_ptr<Update> make_update(OpObserver* observer) { return std::make_unique<UpdateReference>(observer); }

}  // namespace lockstep::ops::reference
