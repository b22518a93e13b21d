// What all families have in common about the type that weights and activations are stored as.

#include <gtest/gtest.h>

#include <limits>

#include "support/ops.h"

namespace lockstep::test {
namespace {

constexpr DType bf16 = DType::bf16;

/// `call` is refused because the tensor `name` has another type than the others of its call.
void expect_refused(const std::string& name, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << name << " is not refused";
  } catch (const BrokenRule& broken) {
    EXPECT_NE(std::string(broken.what()).find(name + ": the type is"), std::string::npos) << broken.what();
  }
}

TEST(Storage, TensorsOfOneCallAgree) {
  const auto ops = ops::make_reference_ops();
  const HostTensor x({4, 8}, bf16), wide({4, 8}), row({8}, bf16), wide_row({8}), stats({4, 2}), delta({4, 9});
  std::vector<std::int32_t> ids(4);
  ops::Norm& norm = ops->norm(ops::NormForm::layer);
  expect_refused("n", [&] { norm.forward(wide, stats, x, row, row, 1e-5F); });
  expect_refused("gain", [&] { norm.forward(x, stats, x, wide_row, row, 1e-5F); });
  expect_refused("bias", [&] { norm.apply(x, stats, x, row, wide_row); });
  expect_refused("stats", [&] { norm.apply(x, stats.as(bf16), x, row, row); });
  expect_refused("dn", [&] { norm.backward({x, {}, wide_row, {}, wide, x, stats, row, {}, {}, false}); });
  expect_refused("residual", [&] { norm.backward({x, {}, wide_row, {}, x, x, stats, row, {}, wide, false}); });
  expect_refused("d_gain", [&] { norm.backward({x, {}, row, {}, x, x, stats, row, {}, {}, false}); });
  const ops::AttentionShape shape{1, 4, 4, 4, 1, 1, 8};
  expect_refused("k", [&] { ops->attention().forward({x, {}, x, wide, x, shape}); });
  expect_refused("v", [&] { ops->attention().forward({x, {}, x, x, wide, shape}); });
  expect_refused("o", [&] { ops->attention().forward({x, {}, wide, wide, wide, shape}); });
  expect_refused("lse", [&] { ops->attention().forward({x, HostTensor({4}, bf16), x, x, x, shape}); });
  const HostTensor lse({4});
  expect_refused("dk", [&] { ops->attention().backward({wide, x, wide, delta, wide, wide, lse, wide, wide, wide, shape}); });
  expect_refused("angles", [&] { ops->rotary().rotate(x, x, {.positions = {0, 4}}); });
  expect_refused("y", [&] { ops->activation().forward(wide, x, ops::Activation::gelu); });
  expect_refused("dy", [&] { ops->activation().backward(x, {}, wide, x, ops::Activation::gelu); });
  expect_refused("token_table", [&] { ops->embedding().forward(x, ids_tensor(ids), wide, {}, {0, 4}); });
  expect_refused("position_table", [&] { ops->embedding().forward(x, ids_tensor(ids), x, wide, {0, 4}); });
  expect_refused("d_tokens", [&] { ops->embedding().backward_tokens(x, x, ids_tensor(ids)); });
  expect_refused("d_table", [&] { ops->embedding().backward_positions(x, x, {0, 4}, false); });
  expect_refused("residual", [&] { ops->dropout().forward(x, x, {}, wide); });
  expect_refused("dx", [&] { ops->dropout().backward(wide, x, {}); });
  expect_refused("y", [&] { ops->elementwise().add(wide, x); });
  double loss = 0;
  expect_refused("logits", [&] { ops->loss().forward(x, ids_tensor(ids), 8, {}, number_tensor(loss)); });
  const HostTensor scalars({ops::StepScalars::count});
  ops::Update& update = ops->update();
  expect_refused("gradient", [&] { update.adamw({row, {}, row, row, row}, {}, {scalars}); });
  expect_refused("exp_avg_sq", [&] { update.adamw({row, {}, wide_row, wide_row, row}, {}, {scalars}); });
  expect_refused("exp_avg_sq", [&] { update.adamw({wide_row, row, wide_row, row, wide_row}, {}, {scalars}); });
  EXPECT_THROW(update.adamw({row, wide_row, wide_row, row, row}, {}, {scalars}), BrokenRule);
  EXPECT_THROW(ops->dropout().forward(ids_tensor(ids), ids_tensor(ids), {}), BrokenRule);
}

/// Infinity, NaN and what rounds to infinity, in the middle of a row.
TEST(Storage, WhatIsNotFiniteGoesThroughBf16) {
  HostTensor values = HostTensor::random({2, 40}, 1);
  values[17] = std::numeric_limits<float>::quiet_NaN();
  values[33] = -INFINITY;
  values[39] = 0x1.FEp127F;  // the largest bf16: doubled, it is infinite
  const HostTensor x = values.as(bf16), gain = HostTensor::filled({40}, 1).as(bf16);
  std::vector<ops::Ops*> all;
  const auto reference = ops::make_reference_ops();
  all.push_back(reference.get());
  for (const auto& machine : machines()) all.push_back(machine->ops.get());
  for (ops::Ops* ops : all) {
    HostTensor same({2, 40}, bf16), twice = x, n = same, stats({2, 2}), dx = same;
    ops->activation().forward(same, x, ops::Activation::none);
    EXPECT_TRUE(std::isnan(same[17]));
    EXPECT_EQ(same[33], -INFINITY);
    ops->elementwise().add(twice, x);
    EXPECT_TRUE(std::isnan(twice[17]));
    EXPECT_EQ(twice[33], -INFINITY);
    EXPECT_EQ(twice[39], INFINITY);
    EXPECT_EQ(twice[40], 2 * x[40]);
    ops->norm(ops::NormForm::layer).forward(n, stats, x, gain, {}, 1e-5F);
    for (std::size_t i = 0; i < 80; ++i) EXPECT_EQ(std::isnan(n[i]), i < 40);
    ops->dropout().backward(dx, x, {});
    EXPECT_TRUE(std::isnan(dx[17]));
  }
}

/// The step is taken with moments as they are stored, so that a resumed run takes the same.
TEST(Storage, AdamWUsesTheRoundedMoments) {
  HostTensor scalars({ops::StepScalars::count});
  scalars.values() = {1, 1, 1, 1, 1, 1};  // rate 1, no correction, no clipping
  for (const auto& machine : machines()) {
    const HostTensor weights = HostTensor::filled({20}, 0).as(bf16), gradient = HostTensor::filled({20}, 1.003F);
    const HostTensor exp_avg({20}, bf16), exp_avg_sq({20}, bf16);
    machine->ops->update().adamw({weights, {}, gradient, exp_avg, exp_avg_sq}, {.beta1 = 0.5F, .beta2 = 0.5F, .eps = 1e-8F},
                                 {scalars});
    EXPECT_EQ(exp_avg[3], 0x1p-1F);        // of 0.5015
    EXPECT_EQ(exp_avg_sq[3], 0x1.02p-1F);  // of 0.5030
    EXPECT_EQ(weights[3], -0.703125F);     // from the moments before they were rounded it would be -0.70703125
  }
}

}  // namespace
}  // namespace lockstep::test
