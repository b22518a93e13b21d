#include "ops/update.h"

#include <gtest/gtest.h>

#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::StepScalars;

/// The scalars of step t at a learning rate, with a clip factor.
HostTensor scalars_of(int t, float rate, float clip) {
  HostTensor values({StepScalars::count});
  values[StepScalars::learning_rate] = rate;
  values[StepScalars::bias_correction1] = 1 - std::pow(0.9F, static_cast<float>(t));
  values[StepScalars::bias_correction2] = 1 - std::pow(0.95F, static_cast<float>(t));
  values[StepScalars::clip_factor] = clip;
  values[StepScalars::finite] = 1;
  return values;
}

struct State {
  explicit State(std::int64_t count, DType type = DType::f32)
      : weights(HostTensor::random({count}, 1).as(type)),
        gradient(HostTensor::random({count}, 2)),
        exp_avg(HostTensor::random({count}, 3, 0.1F).as(type)),
        exp_avg_sq(HostTensor::random({count}, 4, 0.1F)) {
    for (float& value : exp_avg_sq.values()) value = std::fabs(value);
    exp_avg_sq = exp_avg_sq.as(type);
  }
  void step(ops::Ops& ops, const HostTensor& scalars, const Tensor& publish = {}) {
    ops.update().adamw({weights, publish, gradient, exp_avg, exp_avg_sq}, {}, {scalars});
  }
  HostTensor weights, gradient, exp_avg, exp_avg_sq;
};

class UpdateOf : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, UpdateOf, storage_types);

TEST_P(UpdateOf, EqualsReference) {
  // A second step in bf16 would begin where the first one rounded to another neighbour.
  const int steps = GetParam() == DType::f32 ? 3 : 1;
  for (const std::int64_t count : {1, 7, 17, 1025, 50000}) {
    compare_everywhere(
        [&](ops::Ops& ops) {
          State state(count, GetParam());
          HostTensor published({count});
          const Tensor publish = GetParam() == DType::f32 ? published.tensor() : state.weights.tensor();
          for (int t = 1; t <= steps; ++t) state.step(ops, scalars_of(t, 1e-2F, 0.5F), publish);
          if (GetParam() == DType::f32) {
            EXPECT_EQ(different_bits(published.values(), state.weights.values()), 0U);
          }
          return Results{state.weights, state.exp_avg, state.exp_avg_sq};
        },
        1e-6);
  }
}

TEST_P(UpdateOf, SgdEqualsReference) {
  const int steps = GetParam() == DType::f32 ? 3 : 1;
  for (const float momentum : {0.0F, 0.9F}) {
    for (const std::int64_t count : {1, 17, 1025, 50000}) {
      compare_everywhere(
          [&](ops::Ops& ops) {
            State state(count, GetParam());
            const Tensor buffer = momentum == 0 ? Tensor{} : state.exp_avg.tensor();
            for (int t = 1; t <= steps; ++t) {
              const HostTensor scalars = scalars_of(t, 1e-2F, 0.5F);
              ops.update().sgd({state.weights, state.weights, state.gradient, buffer},
                               {.momentum = momentum, .weight_decay = 0.1F}, {scalars});
            }
            return Results{state.weights, state.exp_avg};
          },
          1e-6);
    }
  }
}

// PyTorch 2's AdamW from zero moments with lr 0.01, betas (0.9, 0.95), eps 1e-8, weight decay 0.1: the first step is
// p (1 - lr decay) - lr sign(g), to the relative size of eps.
TEST(Update, FirstStepIsTheSignOfTheGradient) {
  const auto ops = ops::make_reference_ops();
  State state(50);
  state.exp_avg = state.exp_avg_sq = HostTensor({50});
  const HostTensor before = state.weights;
  state.step(*ops, scalars_of(1, 1e-2F, 1));
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_NEAR(state.weights[i], before[i] * 0.999 - std::copysign(0.01, state.gradient[i]), 1e-6);
  }
}

TEST(Update, PublishesBf16) {
  for (const auto& machine : machines()) {
    State state(1025);
    std::vector<std::uint16_t> published(1025), expected(1025);
    Tensor publish, cast;
    publish.shape = Shape{1025};
    publish.dtype = DType::bf16;
    cast = publish;
    publish.data = reinterpret_cast<std::byte*>(published.data());
    cast.data = reinterpret_cast<std::byte*>(expected.data());
    state.step(*machine->ops, scalars_of(1, 1e-2F, 1), publish);
    machine->ops->elementwise().cast(cast, state.weights);
    EXPECT_EQ(published, expected);
  }
}

TEST_P(UpdateOf, PublishingIntoTheWeightsIsTheSame) {
  for (const auto& machine : machines()) {
    State apart(100, GetParam()), same = apart;
    apart.step(*machine->ops, scalars_of(1, 1e-2F, 1));
    same.step(*machine->ops, scalars_of(1, 1e-2F, 1), same.weights);
    EXPECT_EQ(different_bits(apart.weights.values(), same.weights.values()), 0U);
  }
}

TEST_P(UpdateOf, AGradientThatIsNotFiniteLeavesEverything) {
  std::vector<ops::Ops*> all;
  const auto reference = ops::make_reference_ops();
  all.push_back(reference.get());
  for (const auto& machine : machines()) all.push_back(machine->ops.get());
  for (ops::Ops* ops : all) {
    State state(100, GetParam());
    const State before = state;
    state.gradient[7] = NAN;
    HostTensor scalars = scalars_of(1, 1e-2F, 1);
    scalars[StepScalars::finite] = 0;
    state.step(*ops, scalars);
    EXPECT_EQ(different_bits(state.weights.values(), before.weights.values()), 0U);
    EXPECT_EQ(different_bits(state.exp_avg.values(), before.exp_avg.values()), 0U);
    EXPECT_EQ(different_bits(state.exp_avg_sq.values(), before.exp_avg_sq.values()), 0U);
  }
}

TEST_P(UpdateOf, SlicesHaveEqualBits) {
  for (const auto& machine : machines()) {
    State whole(1000, GetParam()), parts = whole;
    const HostTensor scalars = scalars_of(2, 1e-2F, 1);
    whole.step(*machine->ops, scalars);
    for (const auto& [first, count] : {std::pair{0, 3}, std::pair{3, 500}, std::pair{503, 497}}) {
      machine->ops->update().adamw({parts.weights.tensor().flat(first, count),
                                    {},
                                    parts.gradient.tensor().flat(first, count),
                                    parts.exp_avg.tensor().flat(first, count),
                                    parts.exp_avg_sq.tensor().flat(first, count)},
                                   {}, {scalars});
    }
    EXPECT_EQ(different_bits(whole.weights.values(), parts.weights.values()), 0U);
  }
}

TEST(Update, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Update& update = ops->update();
  const HostTensor x({8}), shorter({7}), values = scalars_of(1, 1, 1);
  const StepScalars scalars{values};
  EXPECT_THROW(update.adamw({x, {}, shorter, x, x}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.adamw({x, {}, x, shorter, x}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.adamw({x, {}, x, x, shorter}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.adamw({x, shorter, x, x, x}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.adamw({{}, {}, x, x, x}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.adamw({x, {}, x, x, x}, {}, {shorter}), BrokenRule);
  EXPECT_THROW(update.adamw({x, {}, x, x, x}, {.beta1 = 1}, scalars), BrokenRule);
  EXPECT_THROW(update.adamw({x, {}, x, x, x}, {.beta2 = -1}, scalars), BrokenRule);
  EXPECT_THROW(update.adamw({x, {}, x, x, x}, {.eps = 0}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, shorter, {}}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, shorter}, {.momentum = 0.5F}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, x}, {.momentum = 0}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, {}}, {.momentum = 0.5F}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, x}, {.momentum = 1}, scalars), BrokenRule);
  Tensor elsewhere = x;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(update.adamw({elsewhere, {}, x, x, x}, {}, scalars), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
