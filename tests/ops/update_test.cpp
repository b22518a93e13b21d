#include "ops/update.h"

#include <gtest/gtest.h>

#include "base/rng.h"
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

TEST_P(UpdateOf, LarsAndDirectionsEqualReference) {
  const ops::RandomRounding random{
      .key = CounterRng(5, "rounding.x").key(), .update = 7, .first = 1003, .columns = 37, .stride = 90};
  for (const float momentum : {0.0F, 0.9F}) {
    for (const std::int64_t count : {1, 17, 1025, 50000}) {
      for (const ops::RandomRounding* rounding : {static_cast<const ops::RandomRounding*>(nullptr), &random}) {
        // Where the exact value lies near a neighbour's threshold, either may be stored.
        const double tolerance = GetParam() == DType::f32 ? 1e-6 : 1e-3;
        compare_everywhere(
            [&](ops::Ops& ops) {
              State state(count, GetParam());
              const Tensor buffer = momentum == 0 ? Tensor{} : state.exp_avg.tensor();
              ops.update().lars({state.weights, state.weights, state.gradient, buffer},
                                {.momentum = momentum, .weight_decay = 0.1F, .trust = 0.3F}, {scalars_of(1, 1e-2F, 0.5F)},
                                rounding);
              return Results{state.weights, state.exp_avg};
            },
            tolerance);
        compare_everywhere(
            [&](ops::Ops& ops) {
              State state(count, GetParam());
              HostTensor direction({count});
              ops.update().direction({direction, state.gradient, state.exp_avg}, momentum, {scalars_of(1, 1e-2F, 0.5F)},
                                     rounding);
              return Results{direction, state.exp_avg};
            },
            tolerance);
      }
    }
  }
}

// A gradient that is a direction already is not clipped again.
TEST(Update, SgdMayLeaveItsGradientAsItIs) {
  for (const auto& machine : machines()) {
    State clipped(100), whole = clipped;
    machine->ops->update().sgd({clipped.weights, {}, clipped.gradient, {}}, {.clips = false}, {scalars_of(1, 1e-2F, 0.5F)});
    machine->ops->update().sgd({whole.weights, {}, whole.gradient, {}}, {}, {scalars_of(1, 1e-2F, 1)});
    EXPECT_EQ(different_bits(clipped.weights.values(), whole.weights.values()), 0U);
  }
}

// PyTorch 2's AdamW from zero moments has the first step `p (1 - lr decay) - lr sign(g)`, to the relative size of eps. Here lr is
// 0.01, betas are (0.9, 0.95), eps is 1e-8 and the weight decay 0.1.
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
    machine->ops->elementwise().split(cast, {}, state.weights);
    EXPECT_EQ(published, expected);
  }
}

// A master copy in halves is updated as a whole one.
TEST(Update, HalvesOfMastersHaveTheBitsOfWholeOnes) {
  const auto reference = ops::make_reference_ops();
  std::vector<ops::Ops*> all{reference.get()};
  for (const auto& machine : machines()) all.push_back(machine->ops.get());
  for (ops::Ops* ops : all) {
    for (const std::int64_t count : {1, 17, 1025, 50000}) {
      for (const DType moments : {DType::f32, DType::bf16}) {
        for (const bool sgd : {false, true}) {
          State whole(count), halves = whole;
          whole.exp_avg = whole.exp_avg.as(moments), whole.exp_avg_sq = whole.exp_avg_sq.as(moments);
          halves.exp_avg = whole.exp_avg, halves.exp_avg_sq = whole.exp_avg_sq;
          HostTensor published({count}, DType::bf16), high({count}, DType::bf16);
          std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
          const Tensor low = view(std::span(bits), Shape{count});
          ops->elementwise().split(high, low, halves.weights);
          const HostTensor scalars = scalars_of(1, 1e-2F, 0.5F);
          if (sgd) {
            const ops::Sgd rule{.momentum = 0.9F, .weight_decay = 0.1F};
            ops->update().sgd({whole.weights, published, whole.gradient, whole.exp_avg}, rule, {scalars});
            ops->update().sgd({{}, high, halves.gradient, halves.exp_avg, low}, rule, {scalars});
          } else {
            whole.step(*ops, scalars, published);
            ops->update().adamw({{}, high, halves.gradient, halves.exp_avg, halves.exp_avg_sq, low}, {}, {scalars});
          }
          ops->elementwise().join(halves.weights, high, low);
          EXPECT_EQ(different_bits(whole.weights.values(), halves.weights.values()), 0U) << count;
          EXPECT_EQ(different_bits(published.values(), high.values()), 0U) << count;
          EXPECT_EQ(different_bits(whole.exp_avg.values(), halves.exp_avg.values()), 0U) << count;
        }
      }
    }
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

/// A call's weights, moments and what it is rounded by.
struct Stored {
  DType weights, moments;
  const ops::RandomRounding* random = nullptr;
};

/// Weights and moments after one step from bf16 numbers, whatever they are stored as.
Results stepped(ops::Ops& ops, std::int64_t count, const Stored& stored, bool sgd) {
  const State start(count, DType::bf16);
  HostTensor weights = HostTensor(start.weights).as(stored.weights), exp_avg = HostTensor(start.exp_avg).as(stored.moments),
             exp_avg_sq = HostTensor(start.exp_avg_sq).as(stored.moments);
  const HostTensor scalars = scalars_of(2, 1e-2F, 0.5F);
  if (sgd) {
    ops.update().sgd({weights, weights, start.gradient, exp_avg}, {.momentum = 0.9F, .weight_decay = 0.1F}, {scalars},
                     stored.random);
    return {weights, exp_avg};
  }
  ops.update().adamw({weights, weights, start.gradient, exp_avg, exp_avg_sq}, {}, {scalars}, stored.random);
  return {weights, exp_avg, exp_avg_sq};
}

constexpr std::array stored_types{std::pair{DType::f32, DType::bf16}, std::pair{DType::bf16, DType::f32},
                                  std::pair{DType::bf16, DType::bf16}};

ops::RandomRounding random_rounding() {
  return {.key = CounterRng(5, "rounding.x").key(), .update = 7, .first = 1003, .columns = 37, .stride = 90, .skipped = 11};
}

// Where the exact value lies near a neighbour's threshold, either may be stored, and the step is taken with that.
TEST(Update, MomentsOfAnotherTypeAndRandomRoundingEqualReference) {
  const ops::RandomRounding random = random_rounding();
  for (const auto& [weights, moments] : stored_types) {
    for (const std::int64_t count : {1, 7, 17, 1025, 50000}) {
      for (const ops::RandomRounding* rounding : {static_cast<const ops::RandomRounding*>(nullptr), &random}) {
        for (const bool sgd : {false, true}) {
          const Stored stored{weights, moments, rounding};
          compare_everywhere([&](ops::Ops& ops) { return stepped(ops, count, stored, sgd); }, 1e-3);
        }
      }
    }
  }
}

/// The number by which element e's slot is rounded, as the header says.
std::uint32_t half_of(const ops::RandomRounding& random, std::int64_t e, int slot) {
  const std::uint64_t index = static_cast<std::uint64_t>(random.global(e)) + (std::uint64_t(slot) / 2 << 34U);
  const std::uint32_t word = CounterRng(5, "rounding.x").word(index, random.update);
  return slot % 2 == 0 ? word & 0xFFFFU : word >> 16U;
}

// What f32 would store, rounded by the numbers that the header promises: moments of both rules, and weights on f32 moments.
TEST(Update, RandomRoundingIsThatOfTheNumbersPromised) {
  const ops::RandomRounding random = random_rounding();
  for (const auto& machine : machines()) {
    for (const bool sgd : {false, true}) {
      const Results exact = stepped(*machine->ops, 1025, {DType::f32, DType::f32}, sgd);
      const Results slots = stepped(*machine->ops, 1025, {DType::f32, DType::bf16, &random}, sgd);
      const Results weights = stepped(*machine->ops, 1025, {DType::bf16, DType::f32, &random}, sgd);
      std::size_t up = 0, differ = 0;
      const auto compare = [&](const HostTensor& rounded, const HostTensor& wide, int slot) {
        for (std::size_t i = 0; i < 1025; ++i) {
          const float expected = to_float(to_bfloat16_by(wide[i], half_of(random, static_cast<std::int64_t>(i), slot)));
          differ += rounded[i] != expected ? 1 : 0;
          up += std::fabs(rounded[i]) > std::fabs(wide[i]) ? 1 : 0;
        }
      };
      for (std::size_t s = 1; s < exact.size(); ++s) compare(slots[s], exact[s], static_cast<int>(s) - 1);
      compare(weights[0], exact[0], ops::RandomRounding::weights_slot);
      EXPECT_EQ(differ, 0U) << machine->name;
      EXPECT_NEAR(static_cast<double>(up) / (1025.0 * static_cast<double>(exact.size())), 0.5, 0.05);
    }
  }
}

// Rows of a rectangle, one by one and in pieces that begin anywhere.
TEST(Update, RandomRoundingOfSlicesHasEqualBits) {
  const ops::RandomRounding random = random_rounding();
  for (const auto& machine : machines()) {
    State whole(1000, DType::bf16), parts = whole;
    const HostTensor scalars = scalars_of(2, 1e-2F, 1);
    machine->ops->update().adamw({whole.weights, {}, whole.gradient, whole.exp_avg, whole.exp_avg_sq}, {}, {scalars}, &random);
    for (const auto& [first, count] : {std::pair{0, 3}, std::pair{3, 500}, std::pair{503, 497}}) {
      ops::RandomRounding part = random;
      part.skipped += first;
      machine->ops->update().adamw({parts.weights.tensor().flat(first, count),
                                    {},
                                    parts.gradient.tensor().flat(first, count),
                                    parts.exp_avg.tensor().flat(first, count),
                                    parts.exp_avg_sq.tensor().flat(first, count)},
                                   {}, {scalars}, &part);
    }
    EXPECT_EQ(different_bits(whole.weights.values(), parts.weights.values()), 0U);
    EXPECT_EQ(different_bits(whole.exp_avg.values(), parts.exp_avg.values()), 0U);
    EXPECT_EQ(different_bits(whole.exp_avg_sq.values(), parts.exp_avg_sq.values()), 0U);
  }
}

// A moment that moves by a hundredth of a step a time: to the nearest it stays where it is.
TEST(Update, RandomRoundingLosesNothingOnAverage) {
  const auto machine = ops::make_reference_ops();
  for (const bool random : {false, true}) {
    const HostTensor gradient = HostTensor::filled({4096}, 2);
    HostTensor weights({4096}), moment = HostTensor::filled({4096}, 1).as(DType::bf16),
                                square = HostTensor::filled({4096}, 4).as(DType::bf16);
    ops::RandomRounding rounding{.key = {1, 2}, .columns = 4096};
    for (int t = 1; t <= 100; ++t) {
      rounding.update = static_cast<std::uint64_t>(t);
      machine->update().adamw({weights, {}, gradient, moment, square}, {.beta1 = 0.99992F, .beta2 = 0.999F},
                              {scalars_of(t, 0, 1)}, random ? &rounding : nullptr);
    }
    double sum = 0;
    for (const float value : moment.values()) sum += value;
    EXPECT_NEAR(sum / 4096, random ? 2 - std::pow(0.99992, 100) : 1, random ? 1e-4 : 0);
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
  EXPECT_THROW(update.adamw({x, {}, x, x, x.as(DType::bf16)}, {}, scalars), BrokenRule);
  std::vector<std::uint16_t> bits(8);
  const Tensor low = view(std::span(bits), Shape{8});
  EXPECT_THROW(update.adamw({x, x.as(DType::bf16), x, x, x, low}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.adamw({{}, x, x, x, x, low}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({{}, x.as(DType::bf16), x, {}, low.flat(0, 7)}, {}, scalars), BrokenRule);
  const ops::RandomRounding none{.columns = 0}, far{.first = std::int64_t{1} << 34, .columns = 8};
  EXPECT_THROW(update.adamw({x, {}, x, x, x}, {}, scalars, &none), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, {}}, {}, scalars, &far), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, shorter, {}}, {}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, shorter}, {.momentum = 0.5F}, scalars), BrokenRule);
  EXPECT_THROW(update.lars({x, {}, x, {}}, {.momentum = 0.5F}, scalars), BrokenRule);
  EXPECT_THROW(update.direction({x, x, shorter}, 0.5F, scalars), BrokenRule);
  EXPECT_THROW(update.direction({shorter, x, x}, 0.5F, scalars), BrokenRule);
  EXPECT_THROW(update.direction({x, x, x}, 1, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, x}, {.momentum = 0}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, {}}, {.momentum = 0.5F}, scalars), BrokenRule);
  EXPECT_THROW(update.sgd({x, {}, x, x}, {.momentum = 1}, scalars), BrokenRule);
  Tensor elsewhere = x;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(update.adamw({elsewhere, {}, x, x, x}, {}, scalars), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
