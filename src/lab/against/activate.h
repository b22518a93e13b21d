#pragma once

// Activations of one number in double: the oracle's, and those of the reference kernels that tests compare with
// (tests/reference).

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/linear.h"

namespace lockstep::lab::against {

struct Activated {
  double value, slope;  ///< f(x) and f'(x)
};

inline Activated activate(double x, ops::Activation f) {
  switch (f) {
    case ops::Activation::none:
      return {x, 1};
    case ops::Activation::gelu: {
      const double twice = 1 + std::erf(x / std::numbers::sqrt2),
                   density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
      return {0.5 * x * twice, 0.5 * twice + x * density};
    }
    case ops::Activation::gelu_tanh: {
      constexpr double factor = 0.79788456080286535588, cubic = 0.044715;  // sqrt(2 / pi), and the form's own
      const double t = std::tanh(factor * (x + cubic * x * x * x));
      return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * factor * (1 + 3 * cubic * x * x)};
    }
    case ops::Activation::relu:
      return {x > 0 ? x : 0, x > 0 ? 1.0 : 0.0};
    case ops::Activation::silu: {
      const double sigmoid = 1 / (1 + std::exp(-x));
      return {x * sigmoid, sigmoid * (1 + x * (1 / (1 + std::exp(x))))};
    }
  }
  throw BrokenRule("unknown activation");
}

}  // namespace lockstep::lab::against
