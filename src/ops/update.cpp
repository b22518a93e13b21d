#include "ops/update.h"

#include "ops/check.h"

namespace lockstep::ops {

namespace {

void check_updated(const Tensor& weights, const Tensor& publish, const Tensor& low, std::int64_t count) {
  if (low) {
    demand(!weights, "weights", "a master copy is whole or in halves");
    check_dense(publish, count, "publish", DType::bf16);
    return check_dense(low, count, "low", DType::u16);
  }
  const DType type = storage_of(weights, "weights");
  check_dense(weights, count, "weights", type);
  check_optional_dense(publish, count, "publish", storage_of(publish, "publish"));
  demand(!publish || type == DType::f32 || publish.data == weights.data, "publish", "bf16 weights are published as they are");
}

// What every rule reads and writes; returns the number of weights.
template <class Tensors>
std::int64_t check_range(const Tensors& tensors, const StepScalars& scalars) {
  const std::int64_t count = tensors.gradient.elements();
  check_dense(tensors.gradient, count, "gradient");
  check_updated(tensors.weights, tensors.publish, tensors.low, count);
  check_dense(scalars.values, StepScalars::count, "step scalars");
  return count;
}

// Words are numbered in 32 bits.
void check_random(const RandomRounding* random, std::int64_t count) {
  if (random == nullptr) return;
  demand(random->columns >= 1 && random->first >= 0 && random->skipped >= 0 && random->stride >= 0, "random",
         "the tensors are a part of a parameter");
  demand(count == 0 || random->global(count - 1) < std::int64_t{1} << 34, "random", "a parameter has fewer than 2^34 elements");
}

void check_momentum(const SgdTensors& tensors, float momentum, const StepScalars& scalars, const RandomRounding* random) {
  const auto& [weights, publish, gradient, momentum_buffer, low] = tensors;
  const std::int64_t count = check_range(tensors, scalars);
  check_optional_dense(momentum_buffer, count, "momentum_buffer", storage_of(momentum_buffer, "momentum_buffer"));
  check_random(random, count);
  demand(momentum >= 0 && momentum < 1, "momentum", "it is in [0, 1)");
  demand(!momentum_buffer == (momentum == 0), "momentum_buffer", "there is one where there is momentum");
  check_device({&weights, &publish, &gradient, &momentum_buffer, &low, &scalars.values});
}

}  // namespace

void Update::adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars, const RandomRounding* random) {
  const auto& [weights, publish, gradient, exp_avg, exp_avg_sq, low] = tensors;
  const std::int64_t count = check_range(tensors, scalars);
  check_dense(exp_avg, count, "exp_avg", storage_of(exp_avg, "exp_avg"));
  check_dense(exp_avg_sq, count, "exp_avg_sq", exp_avg.dtype);
  check_random(random, count);
  demand(rule.beta1 >= 0 && rule.beta1 < 1 && rule.beta2 >= 0 && rule.beta2 < 1, "adamw", "the betas are in [0, 1)");
  demand(rule.eps > 0, "adamw", "eps is positive");
  check_device({&weights, &publish, &gradient, &exp_avg, &exp_avg_sq, &low, &scalars.values});
  const OpScope running = scope("adamw");
  do_adamw(tensors, rule, scalars, random);
}

void Update::sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars, const RandomRounding* random) {
  check_momentum(tensors, rule.momentum, scalars, random);
  const OpScope running = scope("sgd");
  do_sgd(tensors, rule, scalars, random);
}

void Update::lars(const SgdTensors& tensors, const Lars& rule, const StepScalars& scalars, const RandomRounding* random) {
  check_momentum(tensors, rule.momentum, scalars, random);
  const OpScope running = scope("lars");
  do_lars(tensors, rule, scalars, random);
}

void Update::direction(const DirectionTensors& tensors, float momentum, const StepScalars& scalars,
                       const RandomRounding* random) {
  const auto& [direction, gradient, momentum_buffer] = tensors;
  const std::int64_t count = gradient.elements();
  check_dense(gradient, count, "gradient");
  check_dense(direction, count, "direction");
  check_dense(momentum_buffer, count, "momentum_buffer", storage_of(momentum_buffer, "momentum_buffer"));
  check_dense(scalars.values, StepScalars::count, "step scalars");
  check_random(random, count);
  demand(momentum >= 0 && momentum < 1, "direction", "the momentum is in [0, 1)");
  check_device({&direction, &gradient, &momentum_buffer, &scalars.values});
  const OpScope running = scope("direction");
  do_direction(tensors, momentum, scalars, random);
}

}  // namespace lockstep::ops
