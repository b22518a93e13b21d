#include <cmath>

#include "ops/reference/access.h"
#include "ops/reference/families.h"
#include "tensor/bfloat16.h"

namespace lockstep::ops::reference {
namespace {

class UpdateReference final : public Update {
  void do_adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
                const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars) override {
    const Tensor& values = scalars.values;
    if (at(values, StepScalars::finite) == 0) return;
    const double rate = at(values, StepScalars::learning_rate), clip = at(values, StepScalars::clip_factor);
    const double correction1 = at(values, StepScalars::bias_correction1);
    const double correction2 = at(values, StepScalars::bias_correction2);
    const double beta1 = rule.beta1, beta2 = rule.beta2;
    for (std::int64_t i = 0; i < weights.elements(); ++i) {
      const double g = clip * at(gradient, i);
      const double m = beta1 * at(exp_avg, i) + (1 - beta1) * g;
      const double v = beta2 * at(exp_avg_sq, i) + (1 - beta2) * g * g;
      const double p = at(weights, i) * (1 - rate * rule.weight_decay);
      at(exp_avg, i) = static_cast<float>(m);
      at(exp_avg_sq, i) = static_cast<float>(v);
      at(weights, i) = static_cast<float>(p - rate / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + rule.eps));
      if (publish && publish.dtype == DType::bf16) {
        reinterpret_cast<BFloat16*>(publish.data)[i] = to_bfloat16(at(weights, i));
      } else if (publish) {
        at(publish, i) = at(weights, i);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Update> make_update() { return std::make_unique<UpdateReference>(); }

}  // namespace lockstep::ops::reference
