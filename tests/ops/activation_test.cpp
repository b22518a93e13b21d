#include "ops/activation.h"

#include <gtest/gtest.h>

#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::Activation;

const auto activations =
    testing::Values(Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu);

class EveryActivation : public testing::TestWithParam<Activation> {};

INSTANTIATE_TEST_SUITE_P(All, EveryActivation, activations);

class StoredActivation : public testing::TestWithParam<std::tuple<Activation, DType>> {};

INSTANTIATE_TEST_SUITE_P(All, StoredActivation, testing::Combine(activations, storage_types));

TEST_P(StoredActivation, EqualsReference) {
  const auto f = std::get<0>(GetParam());
  const DType type = std::get<1>(GetParam());
  for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{7, 30}, std::pair{65, 17}, std::pair{50, 1025}}) {
    const HostTensor x = HostTensor::random({rows, columns}, 1, 6).as(type), dy = HostTensor::random({rows, columns}, 2).as(type);
    compare_everywhere(
        [&](ops::Ops& ops) {
          HostTensor y(x.tensor().shape, x.type()), again = y, dx = y, over = dy, in_place = x;
          ops.activation().forward(y, x, f);
          ops.activation().forward(in_place, in_place, f);
          ops.activation().backward(dx, again, dy, x, f);
          ops.activation().backward(over, {}, over, x, f);
          EXPECT_EQ(different_bits(over.values(), dx.values()), 0U);
          EXPECT_EQ(different_bits(in_place.values(), y.values()), 0U);
          EXPECT_EQ(different_bits(again.values(), y.values()), 0U);
          return Results{y, dx};
        },
        1e-6);
  }
}

TEST_P(StoredActivation, SlicesHaveEqualBits) {
  const auto f = std::get<0>(GetParam());
  const DType type = std::get<1>(GetParam());
  const HostTensor x = HostTensor::random({40, 70}, 3, 4).as(type);
  for (const auto& machine : machines()) {
    HostTensor whole({40, 70}, type), parts = whole;
    machine->ops->activation().forward(whole, x, f);
    for (const auto& [first, count] : {std::pair{0, 13}, std::pair{13, 16}, std::pair{29, 41}}) {
      machine->ops->activation().forward(parts.tensor().slice_columns(first, count), x.tensor().slice_columns(first, count), f);
    }
    EXPECT_EQ(different_bits(whole.values(), parts.values()), 0U);
  }
}

TEST_P(EveryActivation, ReferenceAgainstFiniteDifferences) {
  const auto ops = ops::make_reference_ops();
  HostTensor x = HostTensor::random({1, 40}, 4, 3), y({1, 40}), dx({1, 40});
  const HostTensor dy = HostTensor::random({1, 40}, 5);
  for (float& value : x.values()) value += value > 0 ? 0.1F : -0.1F;  // away from relu's corner
  const auto loss = [&] {
    ops->activation().forward(y, x, GetParam());
    return inner(y, dy);
  };
  ops->activation().backward(dx, {}, dy, x, GetParam());
  expect_gradient(dx, x, loss, 1e-2F, 2e-4);
}

TEST(Activation, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Activations& activation = ops->activation();
  const HostTensor x({4, 8}), narrow({4, 7});
  EXPECT_THROW(activation.forward(narrow, x, Activation::gelu), BrokenRule);
  EXPECT_THROW(activation.backward(narrow, {}, x, x, Activation::gelu), BrokenRule);
  EXPECT_THROW(activation.backward(x, narrow, x, x, Activation::gelu), BrokenRule);
  EXPECT_THROW(activation.backward(x, {}, narrow, x, Activation::gelu), BrokenRule);
  EXPECT_THROW(activation.forward(x, x, static_cast<Activation>(99)), BrokenRule);
  EXPECT_THROW(activation.backward(x, {}, x, x, static_cast<Activation>(99)), BrokenRule);
  Tensor elsewhere = x;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(activation.forward(elsewhere, x, Activation::gelu), BrokenRule);
  EXPECT_THROW(activation.backward(elsewhere, {}, x, x, Activation::gelu), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
