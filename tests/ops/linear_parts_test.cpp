// Products that are made in parts, one after the other, as for a matrix that is leased tile by tile. Sums between the parts are
// f32, and the epilogue is done behind the last part.

#include <gtest/gtest.h>

#include "support/ops.h"

namespace lockstep::ops {
namespace {

using test::HostTensor;

struct Sizes {
  std::int64_t tokens, in, out;
};

/// Where parts of a sum of `count` terms end.
using Cuts = std::vector<std::int64_t>;

class LinearParts : public testing::TestWithParam<std::tuple<DType, test::Machine*>> {
 protected:
  DType type() const { return std::get<0>(GetParam()); }
  HostTensor random(std::int64_t rows, std::int64_t columns, std::uint32_t seed) const {
    return HostTensor::random({rows, columns}, seed).as(type());
  }
  HostTensor empty(std::int64_t rows, std::int64_t columns) const { return HostTensor({rows, columns}, type()); }

  Linear& linear_ = std::get<1>(GetParam())->ops->linear();
};
INSTANTIATE_TEST_SUITE_P(Types, LinearParts, testing::Combine(test::storage_types, testing::ValuesIn(test::machine_kinds())),
                         [](const auto& of) {
                           return std::string(std::get<0>(of.param) == DType::bf16 ? "bf16_" : "f32_") +
                                  test::kind_name(std::get<1>(of.param));
                         });

/// `linear` forward in parts of the in-features.
void forward(Linear& linear, const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue, const Cuts& cuts,
             const Tensor& sums) {
  std::int64_t first = 0;
  for (const std::int64_t end : cuts) {
    Epilogue part = end == x.columns() ? epilogue : Epilogue{};
    if (first > 0) part.sums = sums;
    linear.forward(end == x.columns() ? y : sums, x.slice_columns(first, end - first), w.slice_columns(first, end - first), part);
    first = end;
  }
}

/// `linear` backward in parts of the out-features.
void backward(Linear& linear, const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue,
              const Cuts& cuts, const Tensor& sums) {
  std::int64_t first = 0;
  for (const std::int64_t end : cuts) {
    InputEpilogue part = end == dy.columns() ? epilogue : InputEpilogue{};
    if (first > 0) part.sums = sums;
    linear.backward_input(end == dy.columns() ? dx : sums, dy.slice_columns(first, end - first), w.slice_rows(first, end - first),
                          part);
    first = end;
  }
}

const std::vector<Sizes> shapes{{1, 600, 33}, {7, 520, 300}, {40, 1100, 67}, {130, 768, 512}};

TEST_P(LinearParts, ForwardHasTheBitsOfOneProduct) {
  for (const auto& [tokens, in, out] : shapes) {
    const HostTensor x = random(tokens, in, 1), w = random(out, in, 2), bias = random(1, out, 3), gate = random(tokens, out, 4),
                     residual = random(tokens, out, 5);
    const HostTensor whole = empty(tokens, out), y = empty(tokens, out), kept = empty(tokens, out), again = empty(tokens, out);
    const HostTensor sums({tokens, out});
    const Tensor offset = bias.tensor().reshape(Shape{out});
    for (const bool gated : {false, true}) {
      Epilogue epilogue{.bias = offset, .pre_activation = kept, .activation = Activation::silu};
      (gated ? epilogue.gate : epilogue.residual) = gated ? gate : residual;
      linear_.forward(whole, x, w, epilogue);
      epilogue.pre_activation = again;
      for (const Cuts& cuts : {Cuts{256, in}, Cuts{256, 512, in}}) {
        for (const Tensor& between : {sums.tensor(), type() == DType::f32 ? y.tensor() : sums.tensor()}) {
          forward(linear_, y, x, w, epilogue, cuts, between);
          EXPECT_EQ(y.values(), whole.values()) << tokens << " x " << in << " x " << out;
        }
        EXPECT_EQ(again.values(), kept.values());
      }
    }
    linear_.forward(whole, x, w);
    forward(linear_, y, x, w, {}, {512, in}, type() == DType::f32 ? y.tensor() : sums.tensor());
    EXPECT_EQ(y.values(), whole.values());
  }
}

TEST_P(LinearParts, BackwardHasTheBitsOfOneProduct) {
  for (const auto& [tokens, out, in] : shapes) {
    const HostTensor dy = random(tokens, out, 1), w = random(out, in, 2), pre = random(tokens, in, 3),
                     gate = random(tokens, in, 4);
    const HostTensor whole = empty(tokens, in), dx = empty(tokens, in), d_gate = empty(tokens, in), again = empty(tokens, in);
    const HostTensor sums({tokens, in});
    for (const bool gated : {false, true}) {
      InputEpilogue epilogue{.pre_activation = pre, .activation = Activation::silu};
      if (gated) epilogue.gate = gate, epilogue.d_gate = d_gate;
      linear_.backward_input(whole, dy, w, epilogue);
      if (gated) epilogue.d_gate = again;
      for (const Cuts& cuts : {Cuts{256, out}, Cuts{256, 512, out}}) {
        for (const Tensor& between : {sums.tensor(), type() == DType::f32 ? dx.tensor() : sums.tensor()}) {
          backward(linear_, dx, dy, w, epilogue, cuts, between);
          EXPECT_EQ(dx.values(), whole.values()) << tokens << " x " << in << " x " << out;
        }
        EXPECT_TRUE(!gated || again.values() == d_gate.values());
      }
    }
    linear_.backward_input(whole, dy, w);
    backward(linear_, dx, dy, w, {}, {512, out}, type() == DType::f32 ? dx.tensor() : sums.tensor());
    EXPECT_EQ(dx.values(), whole.values());
  }
}

// Elsewhere the blocks in which products add are others.
TEST_P(LinearParts, OtherCutsAreNear) {
  const std::int64_t tokens = 9, in = 700, out = 40;
  const HostTensor x = random(tokens, in, 1), w = random(out, in, 2), whole = empty(tokens, out), y = empty(tokens, out);
  linear_.forward(whole, x, w);
  const HostTensor sums({tokens, out});
  forward(linear_, y, x, w, {}, {100, 333, in}, type() == DType::f32 ? y.tensor() : sums.tensor());
  EXPECT_LE(test::distance(y.values(), whole.values(), type()), 1e-5);
}

TEST_P(LinearParts, AgreeWithTheReference) {
  const std::unique_ptr<Ops> reference = make_reference_ops();
  const std::int64_t tokens = 5, in = 600, out = 70;
  const HostTensor x = random(tokens, in, 1), w = random(out, in, 2), pre = random(tokens, in, 3), dy = random(tokens, out, 4);
  const HostTensor y = empty(tokens, out), expected = empty(tokens, out), dx = empty(tokens, in), d_expected = empty(tokens, in);
  const HostTensor sums({tokens, out}), d_sums({tokens, in});
  forward(linear_, y, x, w, {.activation = Activation::gelu}, {300, in}, sums);
  forward(reference->linear(), expected, x, w, {.activation = Activation::gelu}, {300, in}, sums);
  EXPECT_LE(test::distance(y.values(), expected.values(), type()), 3e-5);
  const InputEpilogue epilogue{.pre_activation = pre, .activation = Activation::gelu};
  backward(linear_, dx, dy, w, epilogue, {30, out}, d_sums);
  backward(reference->linear(), d_expected, dy, w, epilogue, {30, out}, d_sums);
  EXPECT_LE(test::distance(dx.values(), d_expected.values(), type()), 3e-5);
}

TEST_P(LinearParts, SumsThatDoNotFitAreRefused) {
  const HostTensor x = random(3, 8, 1), w = random(5, 8, 2), y = empty(3, 5), wide({3, 5}), other({3, 6});
  EXPECT_THROW(linear_.forward(y, x, w, {.sums = other}), BrokenRule);
  EXPECT_THROW(linear_.forward(wide, x, w, {.sums = HostTensor({3, 5})}), BrokenRule);  // they would go on elsewhere
  EXPECT_THROW(linear_.backward_input(x, y, w, {.sums = other}), BrokenRule);
  linear_.forward(wide, x, w);
  linear_.forward(wide, x, w, {.sums = wide});
}

}  // namespace
}  // namespace lockstep::ops
