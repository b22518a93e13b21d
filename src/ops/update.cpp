#include "ops/update.h"

#include "ops/check.h"

namespace lockstep::ops {

void Update::adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
                   const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars) {
  const std::int64_t count = weights.elements();
  const DType type = storage_of(weights, "weights");
  check_dense(weights, count, "weights", type);
  check_optional_dense(publish, count, "publish", storage_of(publish, "publish"));
  demand(!publish || type == DType::f32 || publish.data == weights.data, "publish", "bf16 weights are published as they are");
  check_dense(gradient, count, "gradient");
  check_dense(exp_avg, count, "exp_avg", type);
  check_dense(exp_avg_sq, count, "exp_avg_sq", type);
  check_dense(scalars.values, StepScalars::count, "step scalars");
  demand(rule.beta1 >= 0 && rule.beta1 < 1 && rule.beta2 >= 0 && rule.beta2 < 1, "adamw", "the betas are in [0, 1)");
  demand(rule.eps > 0, "adamw", "eps is positive");
  check_device({&weights, &publish, &gradient, &exp_avg, &exp_avg_sq, &scalars.values});
  do_adamw(weights, publish, gradient, exp_avg, exp_avg_sq, rule, scalars);
}

}  // namespace lockstep::ops
