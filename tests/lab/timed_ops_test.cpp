#include "lab/timed_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/ops.h"
#include "support/tiny_engine.h"
#include "tensor/compare.h"

namespace lockstep::lab {
namespace {

using test::HostTensor;

// Two steps of a model that uses every op of training, dropout included.
std::vector<HostTensor> trained(support::Machine& machine, ops::Ops& ops) {
  train::EngineConfig config = support::tiny_config();
  config.model.dropout = 0.2F;
  train::Engine engine(config, *machine.runtime, ops, *machine.world);
  engine.commit();
  engine.initialise();
  const support::Batches batches(1, config.samples, config.positions, config.model.vocabulary);
  for (int step = 0; step < 2; ++step) engine.step(batches.all(), batches.targets(), step, 1e-3);
  std::vector<HostTensor> weights;
  for (const train::Engine::ParameterState& state : engine.state()) {
    weights.emplace_back(state.weight.shape);
    const std::span<const float> values = elements<const float>(state.weight);
    weights.back().values().assign(values.begin(), values.end());
  }
  return weights;
}

// Every op that training does not call; what they wrote.
std::vector<HostTensor> others(ops::Ops& ops) {
  const HostTensor x = HostTensor::random({6, 20}, 1), dy = HostTensor::random({6, 20}, 2), gain = HostTensor::random({20}, 3),
                   bias = HostTensor::random({20}, 4);
  HostTensor stats({6, 2});
  std::vector<HostTensor> out;
  const auto made = [&](const HostTensor& start) { return HostTensor(start); };
  HostTensor normed = made(x), again = made(x), activated = made(x), d_activated = made(x), sum = made(x), copy = made(dy),
             uniform = made(x), dropped = made(x), d_dropped = made(x);
  ops.norm().forward(normed, stats, x, gain, bias, 1e-5F);
  ops.norm().apply(again, stats, x, gain, bias);
  ops.activation().forward(activated, x, ops::Activation::gelu);
  ops.activation().backward(d_activated, {}, dy, x, ops::Activation::gelu);
  ops.elementwise().add(sum, dy);
  ops.elementwise().scale(sum, 0.3F);
  ops.elementwise().cast(copy, x);
  ops.elementwise().zero(sum.tensor().slice_rows(0, 1));
  ops.elementwise().uniform(uniform, CounterRng(7, "test"), 0, -1, 1);
  ops::DropoutSite site{.p = 0.5F, .positions = 3};
  ops.dropout().forward(dropped, x, site, dy);
  ops.dropout().backward(d_dropped, dy, site);
  std::int32_t row = 1;
  HostTensor left = made(x), taken({1, x.tensor().columns()});
  ops.embedding().take_rows(taken, left, view(std::span(&row, 1), Shape{1}));
  HostTensor turned = made(x), centred = made(x);
  const HostTensor angles = HostTensor::random({6, 10}, 5);
  ops.rotary().rotate(turned, angles, {.positions = 6});
  ops.rms_norm().forward(centred, stats, x, gain, {}, 1e-5F);
  HostTensor largest({1});
  largest[0] = static_cast<float>(ops.reduce().max_abs(x));
  return {normed, again, activated, d_activated, sum, copy, uniform, dropped, d_dropped, largest, left, taken, turned, centred};
}

void expect_equal(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(equal_bits(a[i], b[i])) << i << ": " << compare(a[i], b[i]).text();
}

TEST(TimedOps, ResultsAreThoseOfTheWrappedOpsAndEveryOpIsCounted) {
  support::Machine machine(2);
  TimedOps timed(*machine.ops);
  expect_equal(trained(machine, timed), trained(machine, *machine.ops));
  expect_equal(others(timed), others(*machine.ops));
  for (const OpTime& op : timed.times()) EXPECT_GT(op.calls, 0) << op.name;
  EXPECT_EQ(timed.workspace_bytes(), machine.ops->workspace_bytes());
}

TEST(TimedOps, SecondsOfAPartAreThoseOfItsOps) {
  support::Machine machine(1);
  TimedOps timed(*machine.ops);
  trained(machine, timed);
  double all = 0, parts = 0, products = 0;
  for (const OpTime& op : timed.times()) all += op.seconds;
  for (std::size_t part = 0; part < static_cast<std::size_t>(Part::count); ++part)
    parts += timed.seconds(static_cast<Part>(part));
  for (const ProductTime& product : timed.products()) products += product.seconds;
  EXPECT_NEAR(parts, all, 1e-9);
  EXPECT_NEAR(products, timed.seconds(Part::products), 1e-9);
  EXPECT_EQ(timed.seconds(Part::data), 0);
}

TEST(TimedOps, ResetForgets) {
  support::Machine machine(1);
  TimedOps timed(*machine.ops);
  trained(machine, timed);
  timed.reset();
  EXPECT_TRUE(timed.products().empty());
  for (const OpTime& op : timed.times()) EXPECT_EQ(op.calls, 0) << op.name;
}

// The shapes that a step calls are those that its floor is made of.
TEST(TimedOps, ProductsOfAStepAreThoseOfItsShape) {
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    support::Machine machine(1);
    TimedOps timed(*machine.ops);
    const train::EngineConfig config = support::tiny_config(model);
    train::Engine engine(config, *machine.runtime, timed, *machine.world);
    engine.commit();
    engine.initialise();
    timed.reset();
    const support::Batches batches(1, config.samples, config.positions, config.model.vocabulary);
    engine.step(batches.all(), batches.targets(), 0, 1e-3);
    std::size_t layers = 0;
    for (const StepProduct& expected : step_products(config.model, config.samples, config.positions)) {
      if (expected.role == ProductRole::scores || expected.role == ProductRole::values) continue;
      ++layers;
      const auto found = std::ranges::find_if(timed.products(), [&](const ProductTime& p) {
        return p.role == expected.role && p.m == expected.m && p.n == expected.n && p.k == expected.k;
      });
      ASSERT_NE(found, timed.products().end()) << name_of(expected.role) << ' ' << expected.n << ' ' << expected.k;
      EXPECT_EQ(static_cast<double>(found->calls), expected.count);
    }
    EXPECT_EQ(timed.products().size(), layers);
  }
}

}  // namespace
}  // namespace lockstep::lab
