// The optimizers' table, and training state that does not lie where it is used.

#include "train/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

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
  EXPECT_EQ(optimizer_names(), (std::vector<std::string>{"AdamW", "sgd", "lars", "muon"}));
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
  parallel::NormMemory memory;
  ops::WrittenScalars scalars;
  Arena arena("test", MemoryKind::workspace);
  memory.declare(arena, brought.units(), brought.ranges_of_unit(), 1);
  parallel::GlobalNorm norm(brought, memory, *machine.world);
  arena.declare(scalars.values, "step scalars", Shape{ops::StepScalars::count}, DType::f32);
  Ledger ledger;
  arena.commit(*machine.runtime, ledger);
  for (int step = 0; step < 3; ++step) {
    const Batches batches(1, 3, 7, 65, static_cast<std::uint64_t>(step));
    const StepResult result = engine->step(batches.all(), batches.targets(), step, 1e-2);
    brought.take_gradients(engine->state());
    EXPECT_NEAR(norm(*machine.ops), result.gradient_norm, 1e-12 * result.gradient_norm);
    optimizer->update(*machine.ops, brought, scalars,
                      {.learning_rate = 1e-2, .clip_factor = clip_factor(result.gradient_norm, 1)});
    EXPECT_TRUE(brought.equals(engine->state())) << step;
  }
  EXPECT_GT(brought.visits(), 3 * std::ssize(brought.units()));
}

/// What a tensor rank keeps of a model in bf16: each element a function of its parameter and its place in it.
class ShardState final : public parallel::TrainingState {
 public:
  explicit ShardState(std::vector<layout::Unit> units) : units_(std::move(units)) {
    for (const layout::Unit& unit : units_) {
      Kept& kept = kept_.emplace_back(static_cast<std::size_t>(unit.elements));
      for (const layout::PlacedParameter& placed : unit.parameters) {
        each(placed, [&](std::int64_t local, std::int64_t global) {
          const CounterRng rng(1, placed.info.name);
          const auto at = static_cast<std::size_t>(placed.offset + local);
          const auto value = [&](std::uint64_t kind) {
            return static_cast<float>(rng.uniform(static_cast<std::uint64_t>(global), kind)) - (kind == 3 ? 0 : 0.5F);
          };
          kept.bf16[0][at] = to_bfloat16(value(0));
          kept.gradient[at] = value(1);
          kept.bf16[1][at] = to_bfloat16(value(2));
          kept.bf16[2][at] = to_bfloat16(value(3));
        });
      }
    }
  }
  /// Calls body(place in the shard, place in the parameter) for every element.
  template <class Body>
  static void each(const layout::PlacedParameter& placed, const Body& body) {
    for (const layout::Rectangle& part : placed.shard.rectangles({0, placed.shape().elements()})) {
      for (std::int64_t i = 0; i < part.rows * part.columns; ++i)
        body(part.local + i, part.global + i / part.columns * part.stride + i % part.columns);
    }
  }
  /// Weights and moments by parameter and place in it.
  void collect(std::map<std::pair<std::string, std::int64_t>, std::array<BFloat16, 3>>& all) const {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (const layout::PlacedParameter& placed : units_[u].parameters) {
        each(placed, [&](std::int64_t local, std::int64_t global) {
          const auto at = static_cast<std::size_t>(placed.offset + local);
          const std::array<BFloat16, 3> values{kept_[u].bf16[0][at], kept_[u].bf16[1][at], kept_[u].bf16[2][at]};
          const auto [place, added] = all.try_emplace({placed.info.name, global}, values);
          EXPECT_TRUE(added || place->second == values) << "ranks that hold the same element round it alike";
        });
      }
    }
  }
  const std::vector<layout::Unit>& units() const override { return units_; }
  const std::vector<std::string>& slots() const override { return slots_; }
  DType type() const override { return DType::bf16; }
  void distribute(std::int64_t /*step*/) override {}
  void gather() override {}
  void check_copies() override {}
  void collect() override {}

 private:
  struct Kept {
    explicit Kept(std::size_t size)
        : gradient(size), bf16{std::vector<BFloat16>(size), std::vector<BFloat16>(size), std::vector<BFloat16>(size)} {}
    std::vector<float> gradient;
    std::array<std::vector<BFloat16>, 3> bf16;
  };
  void visit(const Use& /*use*/, Call call, void* body) override {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::int64_t count = units_[u].elements;
      std::array<Tensor, 3> flat;
      for (std::size_t i = 0; i < 3; ++i) {
        flat.at(i).data = reinterpret_cast<std::byte*>(kept_[u].bf16.at(i).data());
        flat.at(i).shape = Shape{count};
        flat.at(i).dtype = DType::bf16;
      }
      const Tensor gradient = view(std::span(kept_[u].gradient), Shape{count});
      for (const layout::Range& part : {layout::Range{0, count / 2 + 3}, layout::Range{count / 2 + 3, count - count / 2 - 3}}) {
        const auto of = [&](const Tensor& tensor) { return tensor.flat(part.first, part.count); };
        const std::array<Tensor, 2> slots{of(flat[1]), of(flat[2])};
        call(body, {.unit = UnitIndex{static_cast<int>(u)},
                    .range = part,
                    .master = of(flat[0]),
                    .published = of(flat[0]),
                    .gradient = of(gradient),
                    .slots = slots});
      }
    }
  }
  std::vector<layout::Unit> units_;
  std::vector<std::string> slots_{"exp_avg", "exp_avg_sq"};
  std::vector<Kept> kept_;
};

// Cut over ranks by rows and by columns, and each rank's part in two ranges: every element is rounded as in the whole model.
TEST(Optimizer, StochasticRoundingIsTheElementsWhateverTheLayout) {
  Machine machine(2);
  const std::vector<arch::UnitSpec> table = arch::unit_table(support::tiny_llama(), arch::DecayRule::matrices);
  std::array<std::map<std::pair<std::string, std::int64_t>, std::array<BFloat16, 3>>, 3> learnt;
  for (int ranks = 1; ranks <= 2; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      ShardState state(arch::units_of(table, {.rank = rank, .ranks = ranks}));
      if (ranks == 1) state.collect(learnt[0]);
      const auto optimizer = make_optimizer({.rounding = Rounding::stochastic});
      ops::WrittenScalars scalars;
      Arena arena("test", MemoryKind::workspace);
      arena.declare(scalars.values, "step scalars", Shape{ops::StepScalars::count}, DType::f32);
      Ledger ledger;
      arena.commit(*machine.runtime, ledger);
      state.set_updates(3);
      EXPECT_THROW(optimizer->update(*machine.ops, state, scalars, {.learning_rate = 1e-3}), BrokenRule) << "no addresses yet";
      optimizer->address(state.units(), 7);
      optimizer->update(*machine.ops, state, scalars, {.learning_rate = 1e-3});
      state.collect(learnt.at(static_cast<std::size_t>(ranks)));
    }
  }
  EXPECT_EQ(learnt[1], learnt[2]);
  EXPECT_NE(learnt[1], learnt[0]);
}

}  // namespace
}  // namespace lockstep::train
