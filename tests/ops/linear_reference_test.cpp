#include <gtest/gtest.h>

#include "ops/linear.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::Activation;

// y = x w^T + b, then an activation and a residual: every gradient of the reference is what central differences say.
TEST(LinearReference, AgainstFiniteDifferences) {
  const auto ops = ops::make_reference_ops();
  HostTensor x = HostTensor::random({4, 6}, 1), w = HostTensor::random({5, 6}, 2), b = HostTensor::random({5}, 3);
  const HostTensor residual = HostTensor::random({4, 5}, 4), d_y = HostTensor::random({4, 5}, 5);
  for (const Activation f : {Activation::none, Activation::gelu, Activation::gelu_tanh}) {
    HostTensor y({4, 5}), before({4, 5}), d_before({4, 5}), dx({4, 6}), dw({5, 6}), db({5});
    const auto loss = [&] {
      ops->linear().forward(y, x, w, {.bias = b, .pre_activation = before, .activation = f, .residual = residual});
      return inner(y, d_y);
    };
    loss();
    ops->activation().backward(d_before, {}, d_y, before, f);
    ops->linear().backward_input(dx, d_before, w);
    ops->linear().backward_weight(dw, db, d_before, x, false);
    expect_gradient(dx, x, loss, 1e-2F, 2e-4);
    expect_gradient(dw, w, loss, 1e-2F, 2e-4);
    expect_gradient(db, b, loss, 1e-2F, 2e-4);
  }
}

// The gradient of the input through the activation before it: x = f(u).
TEST(LinearReference, InputGradientThroughTheActivationBefore) {
  const auto ops = ops::make_reference_ops();
  HostTensor u = HostTensor::random({4, 6}, 1, 2);
  const HostTensor w = HostTensor::random({5, 6}, 2), d_y = HostTensor::random({4, 5}, 3);
  HostTensor x({4, 6}), y({4, 5}), du({4, 6}), again({4, 6});
  const auto loss = [&] {
    ops->activation().forward(x, u, Activation::gelu);
    ops->linear().forward(y, x, w);
    return inner(y, d_y);
  };
  loss();
  ops->linear().backward_input(du, d_y, w, {.pre_activation = u, .activation = Activation::gelu, .activated = again});
  EXPECT_EQ(different_bits(again.values(), x.values()), 0U);
  expect_gradient(du, u, loss, 1e-2F, 2e-4);
}

TEST(LinearReference, GradientsAccumulate) {
  const auto ops = ops::make_reference_ops();
  const HostTensor x = HostTensor::random({4, 6}, 1), d_y = HostTensor::random({4, 5}, 2);
  HostTensor once_w({5, 6}), once_b({5}), twice_w({5, 6}), twice_b({5});
  ops->linear().backward_weight(once_w, once_b, d_y, x, false);
  for (const bool accumulate : {false, true}) ops->linear().backward_weight(twice_w, twice_b, d_y, x, accumulate);
  for (float& value : once_w.values()) value *= 2;
  for (float& value : once_b.values()) value *= 2;
  EXPECT_LE(distance(twice_w.values(), once_w.values()), 1e-6);
  EXPECT_LE(distance(twice_b.values(), once_b.values()), 1e-6);
}

}  // namespace
}  // namespace lockstep::test
