// Layers' products on bf16 storage: the bits of the f32 kernels on the widened operands, rounded where they are stored.

#include <gtest/gtest.h>

#include <tuple>

#include "ops/linear.h"
#include "support/ops.h"
#include "tensor/bfloat16.h"

namespace lockstep::test {
namespace {

using ops::Activation;

constexpr Activation activations[] = {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                      Activation::silu};

// A bf16 tensor that owns its elements.
class Half {
 public:
  explicit Half(Shape shape) : values_(static_cast<std::size_t>(shape.elements())), shape_(shape) {}
  // `from` rounded.
  explicit Half(const HostTensor& from) : Half(from.tensor().shape) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = to_bfloat16(from[i]);
  }
  static Half random(Shape shape, std::uint32_t seed, float size = 1) { return Half(HostTensor::random(shape, seed, size)); }

  Tensor tensor() const {
    Tensor result;
    result.data = reinterpret_cast<std::byte*>(const_cast<BFloat16*>(values_.data()));
    result.shape = shape_;
    result.dtype = DType::bf16;
    return result;
  }
  operator Tensor() const { return tensor(); }  // NOLINT(google-explicit-constructor)
  HostTensor widened() const {
    HostTensor result(shape_);
    for (std::size_t i = 0; i < values_.size(); ++i) result[i] = to_float(values_[i]);
    return result;
  }
  bool operator==(const Half& other) const { return values_ == other.values_; }

 private:
  std::vector<BFloat16> values_;
  Shape shape_;
};

struct Sizes {
  std::int64_t rows, in, out;
};
constexpr Sizes sizes[] = {{1, 5, 1}, {3, 700, 67}, {8, 33, 130}, {21, 300, 70}, {150, 513, 131}};

TEST(LinearBf16, ProductsAreThoseOfWidenedOperandsRoundedOnce) {
  for (const auto& [rows, in, out] : sizes) {
    const Half x = Half::random({rows, in}, 1), w = Half::random({out, in}, 2), dy = Half::random({rows, out}, 3);
    const HostTensor wide_x = x.widened(), wide_w = w.widened(), wide_dy = dy.widened(),
                     d_logits = HostTensor::random({rows, out}, 4);
    for (const auto& machine : machines()) {
      SCOPED_TRACE(machine->name);
      ops::Linear& linear = machine->ops->linear();
      HostTensor wide_y({rows, out}), logits = wide_y, wide_dx({rows, in});
      Half y({rows, out}), dx({rows, in});
      linear.forward(wide_y, wide_x, wide_w);
      linear.forward(y, x, w);
      linear.forward(logits, x, w);
      EXPECT_EQ(y, Half(wide_y));
      EXPECT_EQ(different_bits(logits.values(), wide_y.values()), 0U);
      linear.backward_input(wide_dx, wide_dy, wide_w);
      linear.backward_input(dx, dy, w);
      EXPECT_EQ(dx, Half(wide_dx));
      linear.backward_input(wide_dx, d_logits, wide_w);
      linear.backward_input(dx, d_logits, w);
      EXPECT_EQ(dx, Half(wide_dx));
    }
  }
}

TEST(LinearBf16, WeightGradientsAreThoseOfWidenedOperands) {
  for (const auto& [rows, in, out] : sizes) {
    const Half x = Half::random({rows, in}, 1), dy = Half::random({rows, out}, 3);
    const HostTensor wide_x = x.widened(), wide_dy = dy.widened(), d_logits = HostTensor::random({rows, out}, 4);
    for (const auto& machine : machines()) {
      SCOPED_TRACE(machine->name);
      ops::Linear& linear = machine->ops->linear();
      for (const bool accumulate : {false, true}) {
        const HostTensor dw = HostTensor::random({out, in}, 5), db = HostTensor::random({out}, 6);
        HostTensor dw_half = dw, db_half = db, dw_wide = dw, db_wide = db;
        linear.backward_weight(dw_wide, db_wide, wide_dy, wide_x, accumulate);
        linear.backward_weight(dw_half, db_half, dy, x, accumulate);
        EXPECT_EQ(different_bits(dw_half.values(), dw_wide.values()), 0U);
        EXPECT_EQ(different_bits(db_half.values(), db_wide.values()), 0U);
        linear.backward_weight(dw_wide, db_wide, d_logits, wide_x, accumulate);
        linear.backward_weight(dw_half, db_half, d_logits, x, accumulate);
        EXPECT_EQ(different_bits(dw_half.values(), dw_wide.values()), 0U);
        EXPECT_EQ(different_bits(db_half.values(), db_wide.values()), 0U);
      }
    }
  }
}

// A product with the identity leaves what it is given, so that the f32 kernels do the second half of an epilogue alone.
HostTensor identity(std::int64_t size) {
  HostTensor one({size, size});
  for (std::int64_t i = 0; i < size; ++i) one[static_cast<std::size_t>(i * size + i)] = 1;
  return one;
}

TEST(LinearBf16, WhatAnActivationOrAGateMeetsIsRounded) {
  constexpr std::int64_t rows = 21, in = 300, out = 67;
  const Half x = Half::random({rows, in}, 1), w = Half::random({out, in}, 2), bias = Half::random({out}, 3);
  const Half gate = Half::random({rows, out}, 4, 4), residual = Half::random({rows, out}, 5);
  const HostTensor wide_x = x.widened(), wide_w = w.widened(), wide_bias = bias.widened(), one = identity(out);
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    ops::Linear& linear = machine->ops->linear();
    HostTensor wide({rows, out});
    linear.forward(wide, wide_x, wide_w, {.bias = wide_bias});
    const Half rounded(wide);
    for (const Activation f : activations) {
      for (const bool gated : {false, true}) {
        Half y({rows, out}), again = y, pre = y;
        const Tensor by = gated ? gate.tensor() : Tensor{};
        linear.forward(y, x, w, {.bias = bias, .pre_activation = pre, .activation = f, .residual = residual, .gate = by});
        EXPECT_EQ(pre, rounded);
        const HostTensor wide_gate = gate.widened();
        linear.forward(wide, rounded.widened(), one,
                       {.activation = f, .residual = residual.widened(), .gate = gated ? wide_gate.tensor() : Tensor{}});
        EXPECT_EQ(y, Half(wide));
        if (f == Activation::none && !gated) continue;
        linear.forward(again, x, w, {.bias = bias, .activation = f, .residual = residual, .gate = by});
        EXPECT_EQ(again, y) << "without storing pre_activation";
      }
    }
    // Without either, one rounding is all.
    Half y = residual;
    linear.forward(y, x, w, {.bias = bias, .residual = y});
    linear.forward(wide, wide_x, wide_w, {.bias = wide_bias, .residual = residual.widened()});
    EXPECT_EQ(y, Half(wide));
  }
}

TEST(LinearBf16, InputEpiloguesAreThoseOfWidenedOperands) {
  constexpr std::int64_t rows = 21, out = 290, in = 83;
  const Half dy = Half::random({rows, out}, 1), w = Half::random({out, in}, 2), pre = Half::random({rows, in}, 3, 3),
             gate = Half::random({rows, in}, 4, 3);
  const HostTensor wide_pre = pre.widened(), wide_gate = gate.widened();
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    ops::Linear& linear = machine->ops->linear();
    for (const Activation f : activations) {
      for (const bool gated : {false, true}) {
        Half dx({rows, in}), d_gate = dx, activated = dx, y = dx;
        HostTensor wide_dx({rows, in}), wide_d_gate = wide_dx, wide_activated = wide_dx;
        linear.backward_input(dx, dy, w,
                              {pre, f, activated, gated ? gate.tensor() : Tensor{}, gated ? d_gate.tensor() : Tensor{}});
        linear.backward_input(
            wide_dx, dy.widened(), w.widened(),
            {wide_pre, f, wide_activated, gated ? wide_gate.tensor() : Tensor{}, gated ? wide_d_gate.tensor() : Tensor{}});
        EXPECT_EQ(dx, Half(wide_dx));
        EXPECT_EQ(activated, Half(wide_activated));
        EXPECT_EQ(d_gate, Half(wide_d_gate));
        linear.forward(y, pre, Half(identity(in)), {.activation = f, .gate = gated ? gate.tensor() : Tensor{}});
        EXPECT_EQ(activated, y) << "what the forward pass made";
      }
    }
  }
}

// Within a rounding of the reference, which rounds at the same places.
TEST(LinearBf16, EqualsReference) {
  for (const auto& [rows, in, out] : sizes) {
    const Half x = Half::random({rows, in}, 1), w = Half::random({out, in}, 2), bias = Half::random({out}, 3);
    const Half gate = Half::random({rows, out}, 4, 4), residual = Half::random({rows, out}, 5), dy = Half::random({rows, in}, 6),
               w_down = Half::random({in, out}, 7);
    compare_everywhere(
        [&](ops::Ops& ops) {
          Half y({rows, out}), pre = y, gated = y, dx = y, d_gate = y, activated = y;
          HostTensor dw({in, out}), db({in});
          ops.linear().forward(y, x, w, {bias, pre, Activation::gelu, residual});
          ops.linear().forward(gated, x, w, {.activation = Activation::silu, .gate = gate});
          ops.linear().backward_input(dx, dy, w_down, {pre, Activation::silu, activated, gate, d_gate});
          ops.linear().backward_weight(dw, db, dy, y, false);
          return Results{y.widened(), pre.widened(), gated.widened(), dx.widened(), d_gate.widened(), activated.widened(), dw,
                         db};
        },
        1.0 / 64);
  }
}

TEST(LinearBf16, SlicesHaveEqualBits) {
  const Half x = Half::random({90, 300}, 1), w = Half::random({140, 300}, 2), bias = Half::random({140}, 3),
             dy = Half::random({90, 140}, 4);
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    ops::Linear& linear = machine->ops->linear();
    Half y({90, 140}), part_y = y, dx({90, 300}), part_dx = dx;
    HostTensor dw({140, 300}), db({140}), part_dw = dw, part_db = db;
    linear.forward(y, x, w, {.bias = bias, .activation = Activation::gelu});
    linear.backward_input(dx, dy, w);
    linear.backward_weight(dw, db, dy, x, false);
    for (std::int64_t r = 0; r < 90; r += 6) {
      const std::int64_t rows = 6;  // few enough for the kernel that does not pack
      const Tensor from = x.tensor().slice_rows(r, rows);
      for (std::int64_t c = 0; c < 140; c += 35)
        linear.forward(part_y.tensor().slice_rows(r, rows).slice_columns(c, 35), from, w.tensor().slice_rows(c, 35),
                       {.bias = bias.tensor().flat(c, 35), .activation = Activation::gelu});
      for (std::int64_t c = 0; c < 300; c += 75)
        linear.backward_input(part_dx.tensor().slice_rows(r, rows).slice_columns(c, 75), dy.tensor().slice_rows(r, rows),
                              w.tensor().slice_columns(c, 75));
    }
    for (std::int64_t c = 0; c < 140; c += 35)
      linear.backward_weight(part_dw.tensor().slice_rows(c, 35), part_db.tensor().flat(c, 35), dy.tensor().slice_columns(c, 35),
                             x, false);
    EXPECT_EQ(part_y, y);
    EXPECT_EQ(part_dx, dx);
    EXPECT_EQ(different_bits(part_dw.values(), dw.values()), 0U);
    EXPECT_EQ(different_bits(part_db.values(), db.values()), 0U);
  }
}

TEST(LinearBf16, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Linear& linear = ops->linear();
  const Half x({4, 6}), w({5, 6}), y({4, 5}), dx({4, 6}), dw({5, 6}), bias({5});
  const HostTensor wide_w({5, 6}), wide_y({4, 5}), wide_dx({4, 6}), wide_bias({5}), wide_dw({5, 6});
  EXPECT_THROW(linear.forward(y, x, wide_w), BrokenRule);
  EXPECT_THROW(linear.forward(y, x, w, {.bias = wide_bias}), BrokenRule);
  EXPECT_THROW(linear.forward(wide_y, x, w, {.bias = bias}), BrokenRule);
  EXPECT_THROW(linear.forward(y, wide_dx, wide_w), BrokenRule);
  EXPECT_THROW(linear.backward_input(wide_dx, y, w), BrokenRule);
  EXPECT_THROW(linear.backward_input(wide_dx, y, wide_w), BrokenRule);
  EXPECT_THROW(linear.backward_weight(dw, {}, y, x, false), BrokenRule);
  EXPECT_THROW(linear.backward_weight(wide_dw, bias, y, x, false), BrokenRule);
  EXPECT_THROW(linear.backward_weight(wide_dw, {}, y, wide_dx, false), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
