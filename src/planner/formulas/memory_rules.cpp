#include "planner/formulas/memory_rules.h"

namespace lockstep::planner {

std::array<double, 4> zero_law(double parameters, double devices) {
  constexpr double weights = 2, gradients = 2, optimizer = 12;
  return {(weights + gradients + optimizer) * parameters, (weights + gradients + optimizer / devices) * parameters,
          (weights + (gradients + optimizer) / devices) * parameters, (weights + gradients + optimizer) / devices * parameters};
}

ActivationRule activation_rule(const arch::ModelConfig& model, double samples, double positions, double copies, double bytes) {
  const double hidden = bytes * samples * positions * static_cast<double>(model.width);
  const auto layers = static_cast<double>(model.layers);
  return {.hidden = hidden,
          .layer = copies * hidden,
          .inputs = layers * hidden,
          .working = layers * copies * hidden,
          .logits = 4 * samples * positions * static_cast<double>(model.vocabulary)};
}

}  // namespace lockstep::planner
