#include <cmath>

#include "base/rng.h"
#include "ops/reference/access.h"
#include "ops/reference/families.h"

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

class UpdateReference final : public Update {
 public:
  using Update::Update;

 private:
  void do_adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars,
                const RandomRounding* random) override {
    const auto& [weights, publish, gradient, exp_avg, exp_avg_sq] = tensors;
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    const double rate = at(values, StepScalars::learning_rate), clip = at(values, StepScalars::clip_factor);
    const double correction1 = at(values, StepScalars::bias_correction1);
    const double correction2 = at(values, StepScalars::bias_correction2);
    const double beta1 = rule.beta1, beta2 = rule.beta2;
    const Storing store(random);
    for (std::int64_t i = 0; i < weights.elements(); ++i) {
      const double g = clip * at(gradient, i);
      store(exp_avg, i, beta1 * get(exp_avg, i) + (1 - beta1) * g, 0);
      store(exp_avg_sq, i, beta2 * get(exp_avg_sq, i) + (1 - beta2) * g * g, 1);
      const double m = get(exp_avg, i), v = get(exp_avg_sq, i), p = get(weights, i) * (1 - rate * rule.weight_decay);
      store(weights, i, p - rate / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + rule.eps),
            RandomRounding::weights_slot);
      if (publish) put(publish, i, get(weights, i));
    }
  }
  void do_sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars, const RandomRounding* random) override {
    const auto& [weights, publish, gradient, momentum_buffer] = tensors;
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    const double rate = at(values, StepScalars::learning_rate), clip = at(values, StepScalars::clip_factor);
    const Storing store(random);
    for (std::int64_t i = 0; i < weights.elements(); ++i) {
      double step = clip * at(gradient, i) + rule.weight_decay * get(weights, i);
      if (momentum_buffer) {
        store(momentum_buffer, i, rule.momentum * get(momentum_buffer, i) + step, 0);
        step = get(momentum_buffer, i);
      }
      store(weights, i, get(weights, i) - rate * step, RandomRounding::weights_slot);
      if (publish) put(publish, i, get(weights, i));
    }
  }
};

}  // namespace

std::unique_ptr<Update> make_update(OpObserver* observer) { return std::make_unique<UpdateReference>(observer); }

}  // namespace lockstep::ops::reference
