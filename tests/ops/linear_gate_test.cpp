// Products with a gate: y = f(gate) * (x w^T + b), and back.

#include <gtest/gtest.h>

#include "ops/linear.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::Activation;

struct Inputs {
  Inputs(std::int64_t rows, std::int64_t in, std::int64_t hidden)
      : x(HostTensor::random({rows, in}, 1)),
        w(HostTensor::random({hidden, in}, 2)),
        bias(HostTensor::random({hidden}, 3)),
        gate(HostTensor::random({rows, hidden}, 4, 4)),
        up(HostTensor::random({rows, hidden}, 5, 3)),
        dy(HostTensor::random({rows, in}, 6)),
        w_down(HostTensor::random({in, hidden}, 7)) {}
  HostTensor x, w, bias, gate, up, dy, w_down;
};

class LinearGate : public testing::TestWithParam<Activation> {};
INSTANTIATE_TEST_SUITE_P(Activations, LinearGate,
                         testing::Values(Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                         Activation::none));

TEST_P(LinearGate, EqualsReference) {
  for (const auto& [rows, in, hidden] : {std::tuple{1, 5, 1}, std::tuple{7, 30, 67}, std::tuple{40, 300, 128}}) {
    const Inputs inputs(rows, in, hidden);
    compare_everywhere(
        [&](ops::Ops& ops) {
          HostTensor y({rows, hidden}), pre = y, dx = y, d_gate = y, again = y, residual = HostTensor::random({rows, hidden}, 8);
          ops.linear().forward(y, inputs.x, inputs.w,
                               {.bias = inputs.bias, .pre_activation = pre, .activation = GetParam(), .gate = inputs.gate});
          ops.linear().forward(residual, inputs.x, inputs.w,
                               {.activation = GetParam(), .residual = residual, .gate = inputs.gate});
          ops.linear().backward_input(dx, inputs.dy, inputs.w_down, {inputs.up, GetParam(), again, inputs.gate, d_gate});
          return Results{y, pre, residual, dx, d_gate, again};
        },
        1e-5);
  }
}

// The feed-forward layer uses it so: gate and up are halves of one matrix, and the backward pass writes halves of another. Their
// product activation(gate) * up takes the place of up.
TEST_P(LinearGate, HalvesOfOneMatrixAndInPlace) {
  constexpr std::int64_t rows = 21, hidden = 83;
  const Inputs in(rows, 40, hidden);
  for (const auto& machine : machines()) {
    ops::Linear& linear = machine->ops->linear();
    HostTensor y({rows, hidden}), pre = y, dx = y, d_gate = y, again = y;
    linear.forward(y, in.x, in.w, {.pre_activation = pre, .activation = GetParam(), .gate = in.gate});
    linear.backward_input(dx, in.dy, in.w_down, {pre, GetParam(), again, in.gate, d_gate});
    EXPECT_EQ(different_bits(again.values(), y.values()), 0U);

    HostTensor kept({rows, 2 * hidden}), d_kept = kept, y2 = y;
    const Tensor gate = kept.tensor().slice_columns(0, hidden), up = kept.tensor().slice_columns(hidden, hidden);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < hidden; ++j) {
        kept[static_cast<std::size_t>(i * 2 * hidden + j)] = in.gate[static_cast<std::size_t>(i * hidden + j)];
      }
    }
    linear.forward(y2, in.x, in.w, {.pre_activation = up, .activation = GetParam(), .gate = gate});
    EXPECT_EQ(different_bits(y2.values(), y.values()), 0U);
    const Tensor d_up = d_kept.tensor().slice_columns(hidden, hidden);
    linear.backward_input(d_up, in.dy, in.w_down, {up, GetParam(), up, gate, d_kept.tensor().slice_columns(0, hidden)});
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < hidden; ++j) {
        const auto to = static_cast<std::size_t>(i * hidden + j), from = static_cast<std::size_t>(i * 2 * hidden + j);
        ASSERT_EQ(d_kept[from], d_gate[to]);
        ASSERT_EQ(d_kept[from + hidden], dx[to]);
        ASSERT_EQ(kept[from + hidden], y[to]);
      }
    }
  }
}

TEST_P(LinearGate, SlicesHaveEqualBits) {
  const Inputs in(30, 300, 140);
  for (const auto& machine : machines()) {
    ops::Linear& linear = machine->ops->linear();
    HostTensor y({30, 140}), part_y = y, dx = y, part_dx = y, d_gate = y, part_gate = y;
    linear.forward(y, in.x, in.w, {.bias = in.bias, .activation = GetParam(), .gate = in.gate});
    linear.backward_input(dx, in.dy, in.w_down, {in.up, GetParam(), {}, in.gate, d_gate});
    for (std::int64_t r = 0; r < 30; r += 10) {
      for (std::int64_t c = 0; c < 140; c += 35) {
        const auto part = [&](const Tensor& t) { return t.slice_rows(r, 10).slice_columns(c, 35); };
        linear.forward(part(part_y), in.x.tensor().slice_rows(r, 10), in.w.tensor().slice_rows(c, 35),
                       {.bias = in.bias.tensor().flat(c, 35), .activation = GetParam(), .gate = part(in.gate)});
        linear.backward_input(part(part_dx), in.dy.tensor().slice_rows(r, 10), in.w_down.tensor().slice_columns(c, 35),
                              {part(in.up), GetParam(), {}, part(in.gate), part(part_gate)});
      }
    }
    EXPECT_EQ(different_bits(y.values(), part_y.values()), 0U);
    EXPECT_EQ(different_bits(dx.values(), part_dx.values()), 0U);
    EXPECT_EQ(different_bits(d_gate.values(), part_gate.values()), 0U);
  }
}

TEST(LinearGateReference, AgainstFiniteDifferences) {
  const auto ops = ops::make_reference_ops();
  Inputs in(4, 6, 5);
  HostTensor a({4, 5}), y({4, 6}), d_up({4, 5}), d_gate({4, 5});
  const HostTensor identity = [] {
    HostTensor one({5, 5});
    for (std::size_t i = 0; i < 5; ++i) one[6 * i] = 1;
    return one;
  }();
  const auto loss = [&] {  // up times the identity stands for the product that a gate multiplies
    ops->linear().forward(a, in.up, identity, {.activation = Activation::silu, .gate = in.gate});
    ops->linear().forward(y, a, in.w_down);
    return inner(y, in.dy);
  };
  ops->linear().backward_input(d_up, in.dy, in.w_down, {in.up, Activation::silu, {}, in.gate, d_gate});
  expect_gradient(d_up, in.up, loss, 1e-2F, 2e-4);
  expect_gradient(d_gate, in.gate, loss, 1e-2F, 2e-4);
}

TEST(LinearGateReference, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  const Inputs in(4, 6, 5);
  const HostTensor y({4, 5}), narrow({4, 4});
  EXPECT_THROW(ops->linear().forward(y, in.x, in.w, {.gate = narrow}), BrokenRule);
  EXPECT_THROW(ops->linear().backward_input(y, in.dy, in.w_down, {in.up, Activation::silu, {}, in.gate, {}}), BrokenRule);
  EXPECT_THROW(ops->linear().backward_input(y, in.dy, in.w_down, {in.up, Activation::silu, {}, {}, y}), BrokenRule);
  EXPECT_THROW(ops->linear().backward_input(y, in.dy, in.w_down, {{}, Activation::none, {}, in.gate, y}), BrokenRule);
  EXPECT_THROW(ops->linear().backward_input(y, in.dy, in.w_down, {in.up, Activation::silu, {}, narrow, y}), BrokenRule);
  EXPECT_THROW(ops->linear().backward_input(y, in.dy, in.w_down, {in.up, Activation::silu, {}, in.gate, narrow}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
