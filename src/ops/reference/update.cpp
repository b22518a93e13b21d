#include <cmath>

#include "ops/reference/access.h"
#include "ops/reference/families.h"

namespace lockstep::ops::reference {
namespace {

class UpdateReference final : public Update {
 public:
  using Update::Update;

 private:
  void do_adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars) override {
    const auto& [weights, publish, gradient, exp_avg, exp_avg_sq] = tensors;
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    const double rate = at(values, StepScalars::learning_rate), clip = at(values, StepScalars::clip_factor);
    const double correction1 = at(values, StepScalars::bias_correction1);
    const double correction2 = at(values, StepScalars::bias_correction2);
    const double beta1 = rule.beta1, beta2 = rule.beta2;
    for (std::int64_t i = 0; i < weights.elements(); ++i) {
      const double g = clip * at(gradient, i);
      put(exp_avg, i, beta1 * get(exp_avg, i) + (1 - beta1) * g);
      put(exp_avg_sq, i, beta2 * get(exp_avg_sq, i) + (1 - beta2) * g * g);
      const double m = get(exp_avg, i), v = get(exp_avg_sq, i), p = get(weights, i) * (1 - rate * rule.weight_decay);
      put(weights, i, p - rate / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + rule.eps));
      if (publish) put(publish, i, get(weights, i));
    }
  }
  void do_sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars) override {
    const auto& [weights, publish, gradient, momentum_buffer] = tensors;
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    const double rate = at(values, StepScalars::learning_rate), clip = at(values, StepScalars::clip_factor);
    for (std::int64_t i = 0; i < weights.elements(); ++i) {
      double step = clip * at(gradient, i) + rule.weight_decay * get(weights, i);
      if (momentum_buffer) {
        put(momentum_buffer, i, rule.momentum * get(momentum_buffer, i) + step);
        step = get(momentum_buffer, i);
      }
      put(weights, i, get(weights, i) - rate * step);
      if (publish) put(publish, i, get(weights, i));
    }
  }
};

}  // namespace

std::unique_ptr<Update> make_update(OpObserver* observer) { return std::make_unique<UpdateReference>(observer); }

}  // namespace lockstep::ops::reference
