// Layers' products on bf16 storage. The sums of a product are those of the widened operands, or of pairs of bf16. Epilogues in
// f32 work on these sums. Results are rounded where they are stored.

#include <gtest/gtest.h>

#include <tuple>

#include "device/team.h"
#include "ops/cpu/linear.h"
#include "ops/linear.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::Activation;

constexpr Activation activations[] = {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                      Activation::silu};

HostTensor half(Shape shape) { return HostTensor(shape, DType::bf16); }
HostTensor half(Shape shape, std::uint32_t seed, float size = 1) { return HostTensor::random(shape, seed, size).as(DType::bf16); }
HostTensor wide(const HostTensor& x) { return x.as(DType::f32); }

// The bits of `stored` are those of `computed` in its type.
void expect_stored(const HostTensor& stored, const HostTensor& computed, const char* what = "") {
  EXPECT_EQ(different_bits(stored.values(), computed.as(stored.type()).values()), 0U) << what;
}

/// Products of every machine, and of the orders of AVX-512-bf16 and AMX as other processors emulate them.
struct Products {
  std::string name;
  ops::Linear& linear;
  bool pairs;  // two bf16 operands are not added as fp32 is

  /// x w^T in f32: the sums that an epilogue of bf16 operands meets.
  HostTensor sums(const HostTensor& x, const HostTensor& w) const {
    HostTensor y({x.tensor().rows(), w.tensor().rows()});
    pairs ? linear.forward(y, x, w) : linear.forward(y, wide(x), wide(w));
    return y;
  }
};

struct Emulation {
  Emulation(ops::Isa isa, ops::cpu::Bf16Way way)
      : runtime(open_runtime(Device{}, {2})),
        stream(runtime->make_stream()),
        product(runtime->team(), isa, host_memory(), way),
        linear(ops::cpu::make_linear({.ours = product}, *stream, nullptr)) {}
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Stream> stream;
  ops::cpu::Product product;
  std::unique_ptr<ops::Linear> linear;
};

const std::vector<Products>& everywhere() {
  static std::vector<std::unique_ptr<Emulation>> emulations;
  static const std::vector<Products> all = [] {
    std::vector<Products> made;
    for (const auto& machine : machines())
      made.push_back({machine->name, machine->ops->linear(), ops::usual_bf16_order() != ops::Bf16Order::widened});
    for (const ops::Isa isa : ops::available_isas()) {
      for (const ops::cpu::Bf16Way way : {ops::cpu::Bf16Way::emulated_pairs, ops::cpu::Bf16Way::emulated_amx}) {
        const std::string order = way == ops::cpu::Bf16Way::emulated_amx ? "AMX" : "pairs";
        emulations.push_back(std::make_unique<Emulation>(isa, way));
        made.push_back({order + " emulated on " + std::string(ops::name_of(isa)), *emulations.back()->linear, true});
      }
    }
    return made;
  }();
  return all;
}

HostTensor transposed(const HostTensor& x) {
  const std::int64_t rows = x.tensor().rows(), columns = x.tensor().columns();
  const HostTensor from = wide(x);
  HostTensor result({columns, rows});
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      result[static_cast<std::size_t>(j * rows + i)] = from[static_cast<std::size_t>(i * columns + j)];
  return result.as(x.type());
}

struct Sizes {
  std::int64_t rows, in, out;
};
constexpr Sizes sizes[] = {{1, 5, 1}, {3, 700, 67}, {8, 33, 130}, {21, 300, 70}, {150, 513, 131}};

TEST(LinearBf16, ProductsAreRoundedOnce) {
  for (const auto& [rows, in, out] : sizes) {
    const HostTensor x = half({rows, in}, 1), w = half({out, in}, 2), dy = half({rows, out}, 3);
    const HostTensor wide_w = wide(w), d_logits = HostTensor::random({rows, out}, 4);
    for (const Products& products : everywhere()) {
      SCOPED_TRACE(products.name);
      ops::Linear& linear = products.linear;
      const HostTensor sums = products.sums(x, w);
      HostTensor logits({rows, out}), wide_dx({rows, in}), unrounded = wide_dx, y = half({rows, out}), dx = half({rows, in});
      linear.forward(y, x, w);
      linear.forward(logits, x, w);
      expect_stored(y, sums);
      expect_stored(logits, sums);
      linear.backward_input(dx, dy, w);
      expect_stored(dx, products.sums(dy, transposed(w)));
      linear.backward_input(unrounded, dy, w);
      expect_stored(unrounded, products.sums(dy, transposed(w)));
      linear.backward_input(wide_dx, d_logits, wide_w);
      linear.backward_input(dx, d_logits, w);
      expect_stored(dx, wide_dx);
      linear.backward_input(unrounded, d_logits, w);
      expect_stored(unrounded, wide_dx);
    }
  }
}

TEST(LinearBf16, WeightGradientsAreF32) {
  for (const auto& [rows, in, out] : sizes) {
    const HostTensor x = half({rows, in}, 1), dy = half({rows, out}, 3);
    const HostTensor wide_x = wide(x), wide_dy = wide(dy), d_logits = HostTensor::random({rows, out}, 4);
    for (const Products& products : everywhere()) {
      SCOPED_TRACE(products.name);
      ops::Linear& linear = products.linear;
      for (const bool accumulate : {false, true}) {
        const HostTensor dw = HostTensor::random({out, in}, 5), db = HostTensor::random({out}, 6);
        HostTensor dw_half = dw, db_half = db, dw_wide = dw, db_wide = db;
        linear.backward_weight(dw_wide, db_wide, wide_dy, wide_x, accumulate);
        linear.backward_weight(dw_half, db_half, dy, x, accumulate);
        HostTensor sums = products.sums(transposed(dy), transposed(x));
        for (std::size_t i = 0; accumulate && i < sums.values().size(); ++i) sums[i] = dw[i] + sums[i];
        expect_stored(dw_half, sums);
        expect_stored(db_half, db_wide);
        dw_wide = dw_half;
        linear.backward_weight(dw_wide, db_wide, d_logits, wide_x, accumulate);
        linear.backward_weight(dw_half, db_half, d_logits, x, accumulate);
        expect_stored(dw_half, dw_wide);
        expect_stored(db_half, db_wide);
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
  const HostTensor x = half({rows, in}, 1), w = half({out, in}, 2), bias = half({out}, 3);
  const HostTensor gate = half({rows, out}, 4, 4), residual = half({rows, out}, 5);
  const HostTensor wide_bias = wide(bias), one = identity(out);
  for (const Products& products : everywhere()) {
    SCOPED_TRACE(products.name);
    ops::Linear& linear = products.linear;
    HostTensor computed({rows, out});
    const HostTensor sums = products.sums(x, w);
    linear.forward(computed, sums, one, {.bias = wide_bias});
    const HostTensor rounded = computed.as(DType::bf16);
    for (const Activation f : activations) {
      for (const bool gated : {false, true}) {
        HostTensor y = half({rows, out}), again = y, pre = y;
        const Tensor by = gated ? gate.tensor() : Tensor{};
        linear.forward(y, x, w, {.bias = bias, .pre_activation = pre, .activation = f, .residual = residual, .gate = by});
        expect_stored(pre, rounded);
        const HostTensor wide_gate = wide(gate);
        linear.forward(computed, wide(rounded), one,
                       {.activation = f, .residual = wide(residual), .gate = gated ? wide_gate.tensor() : Tensor{}});
        expect_stored(y, computed);
        if (f == Activation::none && !gated) continue;
        linear.forward(again, x, w, {.bias = bias, .activation = f, .residual = residual, .gate = by});
        expect_stored(again, y, "without storing pre_activation");
      }
    }
    // Without either, one rounding is all.
    HostTensor y = residual;
    linear.forward(y, x, w, {.bias = bias, .residual = y});
    linear.forward(computed, sums, one, {.bias = wide_bias, .residual = wide(residual)});
    expect_stored(y, computed);
  }
}

TEST(LinearBf16, InputEpiloguesAreThoseOfF32) {
  constexpr std::int64_t rows = 21, out = 290, in = 83;
  const HostTensor dy = half({rows, out}, 1), w = half({out, in}, 2), pre = half({rows, in}, 3, 3), gate = half({rows, in}, 4, 3);
  const HostTensor wide_pre = wide(pre), wide_gate = wide(gate);
  for (const Products& products : everywhere()) {
    SCOPED_TRACE(products.name);
    ops::Linear& linear = products.linear;
    const HostTensor sums = products.sums(dy, transposed(w)), one = identity(in);
    for (const Activation f : activations) {
      for (const bool gated : {false, true}) {
        HostTensor dx = half({rows, in}), d_gate = dx, activated = dx, y = dx;
        HostTensor wide_dx({rows, in}), wide_d_gate = wide_dx, wide_activated = wide_dx;
        linear.backward_input(dx, dy, w,
                              {pre, f, activated, gated ? gate.tensor() : Tensor{}, gated ? d_gate.tensor() : Tensor{}});
        linear.backward_input(
            wide_dx, sums, one,
            {wide_pre, f, wide_activated, gated ? wide_gate.tensor() : Tensor{}, gated ? wide_d_gate.tensor() : Tensor{}});
        expect_stored(dx, wide_dx);
        expect_stored(activated, wide_activated);
        expect_stored(d_gate, wide_d_gate);
        linear.forward(y, pre, identity(in).as(DType::bf16), {.activation = f, .gate = gated ? gate.tensor() : Tensor{}});
        expect_stored(activated, y, "what the forward pass made");
      }
    }
  }
}

// Within a rounding of the reference, which rounds at the same places.
TEST(LinearBf16, EqualsReference) {
  for (const auto& [rows, in, out] : sizes) {
    const HostTensor x = half({rows, in}, 1), w = half({out, in}, 2), bias = half({out}, 3);
    const HostTensor gate = half({rows, out}, 4, 4), residual = half({rows, out}, 5), dy = half({rows, in}, 6),
                     w_down = half({in, out}, 7);
    compare_everywhere(
        [&](ops::Ops& ops) {
          HostTensor y = half({rows, out}), pre = y, gated = y, dx = y, d_gate = y, activated = y;
          HostTensor dw({in, out}), db({in}), sum({rows, out});
          ops.linear().forward(y, x, w, {bias, pre, Activation::gelu, residual});
          ops.linear().forward(gated, x, w, {.activation = Activation::silu, .gate = gate});
          ops.linear().backward_input(dx, dy, w_down, {pre, Activation::silu, activated, gate, d_gate});
          ops.linear().backward_input(sum, dy, w_down);
          ops.linear().backward_weight(dw, db, dy, y, false);
          return Results{wide(y), wide(pre), wide(gated), wide(dx), wide(d_gate), wide(activated), dw, db, sum};
        },
        1.0 / 64);
  }
}

TEST(LinearBf16, SlicesHaveEqualBits) {
  const HostTensor x = half({90, 300}, 1), w = half({140, 300}, 2), bias = half({140}, 3), dy = half({90, 140}, 4);
  for (const Products& products : everywhere()) {
    SCOPED_TRACE(products.name);
    ops::Linear& linear = products.linear;
    HostTensor y = half({90, 140}), part_y = y, dx = half({90, 300}), part_dx = dx;
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
    expect_stored(part_y, y);
    expect_stored(part_dx, dx);
    expect_stored(part_dw, dw);
    expect_stored(part_db, db);
  }
}

// What the ranks of a layer's parts add up has seen no rounding, and is rounded once.
TEST(LinearBf16, PartsOfOutFeaturesAddUpInF32) {
  const HostTensor w = half({140, 300}, 2), dy = half({90, 140}, 4);
  for (const Products& products : everywhere()) {
    SCOPED_TRACE(products.name);
    HostTensor whole({90, 300}), sum({90, 300});
    products.linear.backward_input(whole, dy, w);
    for (const auto& [first, count] : {std::pair{0, 35}, std::pair{35, 105}}) {
      const HostTensor part({90, 300});
      products.linear.backward_input(part, dy.tensor().slice_columns(first, count), w.tensor().slice_rows(first, count));
      for (std::size_t i = 0; i < part.values().size(); ++i) sum[i] += part[i];
    }
    EXPECT_LE(distance(sum.values(), whole.values()), 1e-6);
  }
}

TEST(LinearBf16, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Linear& linear = ops->linear();
  const HostTensor x = half({4, 6}), w = half({5, 6}), y = half({4, 5}), dx = half({4, 6}), dw = half({5, 6}), bias = half({5});
  const HostTensor wide_w({5, 6}), wide_y({4, 5}), wide_dx({4, 6}), wide_bias({5}), wide_dw({5, 6});
  EXPECT_THROW(linear.forward(y, x, wide_w), BrokenRule);
  EXPECT_THROW(linear.forward(y, x, w, {.bias = wide_bias}), BrokenRule);
  EXPECT_THROW(linear.forward(wide_y, x, w, {.bias = bias}), BrokenRule);
  EXPECT_THROW(linear.forward(y, wide_dx, wide_w), BrokenRule);
  EXPECT_THROW(linear.backward_input(wide_dx, y, w, {.pre_activation = dx, .activation = Activation::silu}), BrokenRule);
  EXPECT_THROW(linear.backward_input(wide_dx, y, wide_w), BrokenRule);
  EXPECT_THROW(linear.backward_weight(dw, {}, y, x, false), BrokenRule);
  EXPECT_THROW(linear.backward_weight(wide_dw, bias, y, x, false), BrokenRule);
  EXPECT_THROW(linear.backward_weight(wide_dw, {}, y, wide_dx, false), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
