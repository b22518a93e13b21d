// The optimizers' table, and training state that does not lie where it is used.

#include "train/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include "model/initialise.h"
#include "parallel/global_norm.h"
#include "support/brought_state.h"
#include "support/tiny_engine.h"

namespace lockstep::train {
namespace {

using parallel::StateRange;
using support::Batches;
using support::Machine;

OptimizerSettings sgd_with(float momentum) { return {.name = "sgd", .momentum = momentum, .weight_decay = 0.01F}; }

TEST(Optimizer, TheTableNamesWhatCanBeMade) {
  EXPECT_EQ(optimizer_names(), (std::vector<std::string>{"AdamW", "sgd"}));
  for (const std::string& name : optimizer_names()) {
    const auto optimizer = make_optimizer({.name = name});
    EXPECT_EQ(optimizer->describe().at("name").string(), name);
  }
  EXPECT_THROW(make_optimizer({.name = "lion"}), BrokenRule);
}

TEST(Optimizer, SlotsAreNamedAsPyTorchNamesThem) {
  EXPECT_EQ(make_optimizer({})->slots(), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(make_optimizer(sgd_with(0.9F))->slots(), (std::vector<std::string>{"momentum_buffer"}));
  EXPECT_TRUE(make_optimizer(sgd_with(0))->slots().empty());
}

// torch.optim.SGD: g += decay p; b = momentum b + g (g itself at first); p -= lr b.
TEST(Optimizer, SgdFollowsTorchsRule) {
  for (const float momentum : {0.0F, 0.9F}) {
    Machine machine(1);
    EngineConfig config = support::tiny_config();
    config.optimizer = sgd_with(momentum);
    config.grad_clip = 0;
    const auto engine = support::make_engine(config, machine);
    std::vector<std::vector<double>> weights, buffers;
    for (const auto& p : support::parameters_of(*engine)) {
      const std::vector<float> values = support::values_of(p.weight);
      weights.emplace_back(values.begin(), values.end());
      buffers.emplace_back(values.size(), 0.0);
    }
    for (int step = 0; step < 3; ++step) {
      const Batches batches(1, 3, 7, 65, static_cast<std::uint64_t>(step));
      engine->step(batches.all(), batches.targets(), step, 0.1);
      const auto parameters = support::parameters_of(*engine);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const bool decays = parameters[i].weight.shape.rank() >= 2;
        const std::vector<float> gradient = support::values_of(parameters[i].gradient);
        for (std::size_t j = 0; j < gradient.size(); ++j) {
          const double g = gradient[j] + (decays ? 0.01 * weights[i][j] : 0.0);
          buffers[i][j] = momentum * buffers[i][j] + g;
          weights[i][j] -= 0.1 * buffers[i][j];
          ASSERT_NEAR(support::values_of(parameters[i].weight)[j], weights[i][j], 1e-5) << parameters[i].name;
        }
      }
    }
  }
}

// What a state brings for a visit has the bits of what lies in place: start values, norm and updates go through the same visits.
TEST(TrainingState, RangesThatAreBroughtAndWrittenBackChangeNoBit) {
  Machine machine(2);
  EngineConfig config = support::tiny_config();
  const auto engine = support::make_engine(config, machine);
  support::BroughtState brought(engine->state(), 3);
  const std::vector<arch::UnitSpec> table = arch::unit_table(config.model, config.decay);
  model::initialise(*machine.ops, brought, table, config.seed, {});
  EXPECT_TRUE(brought.equals(engine->state()));

  const std::unique_ptr<Optimizer> optimizer = make_optimizer(config.optimizer);
  Mirror squares;
  ops::WrittenScalars scalars;
  Arena arena("test", MemoryKind::workspace);
  parallel::GlobalNorm::declare(arena, squares, brought.units().size(), brought.ranges_of_unit(), 1);
  parallel::GlobalNorm norm(brought, squares, *machine.world);
  arena.declare(scalars.values, "step scalars", Shape{ops::StepScalars::count}, DType::f32);
  Ledger ledger;
  arena.commit(*machine.runtime, ledger);
  for (int step = 0; step < 3; ++step) {
    const Batches batches(1, 3, 7, 65, static_cast<std::uint64_t>(step));
    const StepResult result = engine->step(batches.all(), batches.targets(), step, 1e-2);
    brought.take_gradients(engine->state());
    EXPECT_NEAR(norm(*machine.ops), result.gradient_norm, 1e-12 * result.gradient_norm);
    optimizer->set(*machine.stream, scalars,
                   {.learning_rate = 1e-2, .updates = step + 1, .clip_factor = clip_factor(result.gradient_norm, 1)});
    optimizer->update(machine.ops->update(), brought, scalars.on_device());
    EXPECT_TRUE(brought.equals(engine->state())) << step;
  }
  EXPECT_GT(brought.visits(), 3 * std::ssize(brought.units()));
}

}  // namespace
}  // namespace lockstep::train
