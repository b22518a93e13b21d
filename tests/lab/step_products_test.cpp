#include "lab/step/step_products.h"

#include <gtest/gtest.h>

#include "arch/flops.h"
#include "arch/parameters.h"
#include "lab/step/step_shapes.h"

namespace lockstep::lab {
namespace {

bool of_attention(const StepProduct& product) {
  return product.role == ProductRole::scores || product.role == ProductRole::values;
}

TEST(StepProducts, AddUpToTheFormulaOfFlops) {
  for (const std::string& name : step_shape_names()) {
    const StepShape& shape = step_shape(name);
    const arch::ModelConfig config = model_of(shape);
    double layers = 0, attention = 0;
    for (const StepProduct& product : step_products(config, shape.samples, shape.positions)) {
      (of_attention(product) ? attention : layers) += product.flops();
    }
    // 6 FLOPs a weight and token; vectors (biases, norms) take no product.
    const auto tokens = static_cast<double>(shape.tokens());
    const arch::ParameterCounts counts = arch::count_parameters(config);
    const auto vectors = static_cast<double>(counts.other);
    EXPECT_NEAR(layers / (6 * tokens * (static_cast<double>(counts.without_positions) - vectors)), 1, 1e-12) << name;
    // The formula counts attention whole; a causal mask leaves T + 1 of 2 T.
    const auto t = static_cast<double>(shape.positions);
    const double whole = tokens * arch::training_flops_per_token(config, shape.positions) -
                         6 * tokens * static_cast<double>(counts.without_positions);
    EXPECT_NEAR(attention / whole, (t + 1) / (2 * t), 1e-9) << name;
  }
}

TEST(StepProducts, ALastShortChunkOfLogitsIsCounted) {
  arch::ModelConfig config = model_of(step_shape("gpt2:4x64"));
  double tokens = 0;
  for (const StepProduct& product : step_products(config, 1, 300)) {
    if (product.role == ProductRole::forward && product.n == config.vocabulary)
      tokens += product.count * static_cast<double>(product.m);
  }
  EXPECT_DOUBLE_EQ(tokens, 300);
}

TEST(StepProducts, EveryRoleHasAName) {
  for (const ProductRole role : {ProductRole::forward, ProductRole::input_gradient, ProductRole::weight_gradient,
                                 ProductRole::scores, ProductRole::values}) {
    EXPECT_FALSE(name_of(role).empty());
  }
}

}  // namespace
}  // namespace lockstep::lab
