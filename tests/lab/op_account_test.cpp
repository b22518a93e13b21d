#include "lab/step/op_account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/tiny_engine.h"
#include "tensor/compare.h"

namespace lockstep::lab {
namespace {

/// Kernels of one rank that an account is kept of.
struct Observed {
  OpAccount account;
  support::Machine machine{2};
  std::unique_ptr<ops::Ops> ops = ops::make_ops(*machine.runtime, *machine.stream, {.observer = &account});

  /// `steps` steps of training with `ops`, dropout included; the weights after them.
  std::vector<float> train(ops::Ops& with, const train::EngineConfig& config, int steps) {
    support::RankEngine engine(config, *machine.runtime, with, *machine.world);
    engine.commit();
    engine.initialise();
    account.reset();
    const support::Batches batches(1, config.samples, config.positions, config.model.vocabulary);
    for (int step = 0; step < steps; ++step) engine.step(batches.all(), batches.targets(), step, 1e-3);
    std::vector<float> weights;
    for (const support::ParameterState& state : support::parameters_of(engine)) {
      const std::vector<float> values = support::values_of(state.weight);
      weights.insert(weights.end(), values.begin(), values.end());
    }
    return weights;
  }
};

train::EngineConfig with_dropout() {
  train::EngineConfig config = support::tiny_config();
  config.model.dropout = 0.2F;
  return config;
}

TEST(OpAccount, ChangesNoBitAndCountsCalls) {
  Observed observed;
  EXPECT_EQ(observed.train(*observed.ops, with_dropout(), 2), observed.train(*observed.machine.ops, with_dropout(), 2));
  observed.train(*observed.ops, with_dropout(), 2);
  const auto calls = [&](std::string_view family, std::string_view name) {
    const auto found =
        std::ranges::find_if(observed.account.times(), [&](const OpTime& op) { return op.family == family && op.name == name; });
    return found == observed.account.times().end() ? 0 : found->calls;
  };
  EXPECT_EQ(calls("embedding", "forward"), 2);
  EXPECT_EQ(calls("attention", "forward"), 4);  // 2 layers
  EXPECT_EQ(calls("dropout", "forward"), 10);   // behind the embedding and both parts of a layer
  EXPECT_EQ(calls("linear", "prepack"), 0);
  EXPECT_EQ(observed.account.times().front().family, "embedding") << "the first that a step calls";
}

TEST(OpAccount, SecondsOfAPartAreThoseOfItsOps) {
  Observed observed;
  observed.train(*observed.ops, with_dropout(), 2);
  const OpAccount& account = observed.account;
  double all = 0, parts = 0, products = 0;
  for (const OpTime& op : account.times()) all += op.seconds;
  for (std::size_t part = 0; part < static_cast<std::size_t>(Part::count); ++part)
    parts += account.seconds(static_cast<Part>(part));
  for (const ProductTime& product : account.products()) products += product.seconds;
  EXPECT_GT(all, 0);
  EXPECT_NEAR(parts, all, 1e-9);
  EXPECT_NEAR(products, account.seconds(Part::products), 1e-9);
  EXPECT_EQ(account.seconds(Part::ranks), 0);
}

TEST(OpAccount, ResetForgets) {
  Observed observed;
  observed.train(*observed.ops, support::tiny_config(), 1);
  EXPECT_FALSE(observed.account.times().empty());
  observed.account.reset();
  EXPECT_TRUE(observed.account.products().empty());
  EXPECT_TRUE(observed.account.times().empty());
}

// The shapes that a step calls are those that its floor is made of.
TEST(OpAccount, ProductsOfAStepAreThoseOfItsShape) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    Observed observed;
    const train::EngineConfig config = support::tiny_config(model);
    observed.train(*observed.ops, config, 1);
    const std::vector<ProductTime>& products = observed.account.products();
    std::size_t layers = 0;
    for (const StepProduct& expected : step_products(config.model, config.samples, config.positions)) {
      if (expected.role == ProductRole::scores || expected.role == ProductRole::values) continue;
      ++layers;
      const auto found = std::ranges::find_if(products, [&](const ProductTime& p) {
        return p.role == expected.role && p.m == expected.m && p.n == expected.n && p.k == expected.k;
      });
      ASSERT_NE(found, products.end()) << name_of(expected.role) << ' ' << expected.n << ' ' << expected.k;
      EXPECT_EQ(static_cast<double>(found->calls), expected.count);
    }
    EXPECT_EQ(products.size(), layers);
  }
}

}  // namespace
}  // namespace lockstep::lab
