#include "ops/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/open_ops.h"
#include "support/largest.h"
#include "support/ops.h"

namespace lockstep::ops {
namespace {

// A matrix in host memory with a gap after each row.
struct Matrix {
  std::vector<float> values;
  Tensor tensor;

  Matrix(std::int64_t rows, std::int64_t columns, std::int64_t gap = 0)
      : values(static_cast<std::size_t>(rows * (columns + gap))) {
    std::seed_seq of_its_shape{rows, columns, gap};
    std::mt19937 random(of_its_shape);
    std::normal_distribution<float> normal(0, 1);
    for (float& value : values) value = normal(random);
    tensor.shape = {rows, columns};
    tensor.row_stride = columns + gap;
    point();
  }
  Matrix(const Matrix& other) : values(other.values), tensor(other.tensor) { point(); }
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() = default;

 private:
  void point() { tensor.data = reinterpret_cast<std::byte*>(values.data()); }
};

Matrix vector_of(std::int64_t count) {
  Matrix v(1, count);
  v.tensor.shape = {count};
  v.tensor.row_stride = 0;
  return v;
}

void expect_close(const Matrix& fast, const Matrix& reference, const std::string& what) {
  ASSERT_EQ(fast.values.size(), reference.values.size());
  support::Largest worst;
  for (std::size_t i = 0; i < fast.values.size(); ++i) {
    const double scale = std::max(1.0, std::fabs(static_cast<double>(reference.values[i])));
    worst.take(std::fabs(static_cast<double>(fast.values[i]) - static_cast<double>(reference.values[i])) / scale);
  }
  EXPECT_LE(worst.value(), 3e-5) << what;
}

const Activation activations[] = {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu};

class LinearOps : public testing::TestWithParam<test::Machine*> {
 protected:
  Linear& fast_ = GetParam()->ops->linear();
  std::unique_ptr<Ops> reference_ops_ = make_reference_ops();
  Linear& reference_ = reference_ops_->linear();
};
INSTANTIATE_TEST_SUITE_P(Machines, LinearOps, testing::ValuesIn(test::machine_kinds()),
                         [](const auto& of) { return test::kind_name(of.param); });

TEST_P(LinearOps, ForwardEpiloguesAreTheReference) {
  for (const Activation f : activations) {
    for (const std::int64_t tokens : {1, 7, 40}) {
      for (const bool everything : {false, true}) {
        const Matrix x(tokens, 300, 2), w(67, 300, 5), bias = vector_of(67), residual(tokens, 67, 3);
        Matrix y(tokens, 67, 1), pre(tokens, 67);
        Matrix y_reference = y, pre_reference = pre;
        Epilogue epilogue{.activation = f};
        if (everything) epilogue = {bias.tensor, pre.tensor, f, residual.tensor};
        fast_.forward(y.tensor, x.tensor, w.tensor, epilogue);
        if (everything) epilogue.pre_activation = pre_reference.tensor;
        reference_.forward(y_reference.tensor, x.tensor, w.tensor, epilogue);
        expect_close(y, y_reference, "y");
        expect_close(pre, pre_reference, "pre_activation");
      }
    }
  }
}

TEST_P(LinearOps, TheResidualMayBeTheOutput) {
  const Matrix x(50, 600), w(130, 600), bias = vector_of(130);
  Matrix y(50, 130), stream(50, 130);
  Matrix apart = stream;
  fast_.forward(y.tensor, x.tensor, w.tensor, {.bias = bias.tensor, .residual = stream.tensor});
  fast_.forward(apart.tensor, x.tensor, w.tensor, {.bias = bias.tensor, .residual = apart.tensor});
  EXPECT_EQ(apart.values, y.values);
}

TEST_P(LinearOps, InputEpiloguesAreTheReference) {
  for (const Activation f : activations) {
    for (const bool rewrite : {false, true}) {
      const Matrix dy(37, 290, 1), w(290, 83, 2), pre(37, 83, 4);
      Matrix dx(37, 83), activated(37, 83, 1);
      Matrix dx_reference = dx, activated_reference = activated;
      fast_.backward_input(dx.tensor, dy.tensor, w.tensor, {pre.tensor, f, rewrite ? activated.tensor : Tensor{}});
      reference_.backward_input(dx_reference.tensor, dy.tensor, w.tensor,
                                {pre.tensor, f, rewrite ? activated_reference.tensor : Tensor{}});
      expect_close(dx, dx_reference, "dx");
      expect_close(activated, activated_reference, "activated");
    }
  }
}

TEST_P(LinearOps, TheRewrittenActivationIsTheFirstOne) {
  for (const Activation f : activations) {
    const Matrix x(33, 70), w(83, 70), dy(33, 20), w2(20, 83);
    Matrix y(33, 83), pre(33, 83), dx(33, 83), again(33, 83);
    fast_.forward(y.tensor, x.tensor, w.tensor, {.pre_activation = pre.tensor, .activation = f});
    fast_.backward_input(dx.tensor, dy.tensor, w2.tensor, {pre.tensor, f, again.tensor});
    EXPECT_EQ(again.values, y.values);
    Matrix in_place = pre, dx_in_place(33, 83);
    fast_.backward_input(dx_in_place.tensor, dy.tensor, w2.tensor, {in_place.tensor, f, in_place.tensor});
    EXPECT_EQ(in_place.values, y.values);
    EXPECT_EQ(dx_in_place.values, dx.values);
  }
}

TEST_P(LinearOps, GradientsAreTheReference) {
  for (const bool accumulate : {false, true}) {
    for (const std::int64_t tokens : {0, 1, 70, 300}) {
      const Matrix x(tokens, 65, 1), dy(tokens, 51, 2);
      Matrix dw(51, 65, 1), db = vector_of(51);
      Matrix dw_reference = dw, db_reference = db;
      fast_.backward_weight(dw.tensor, db.tensor, dy.tensor, x.tensor, accumulate);
      reference_.backward_weight(dw_reference.tensor, db_reference.tensor, dy.tensor, x.tensor, accumulate);
      expect_close(dw, dw_reference, "dw");
      expect_close(db, db_reference, "db");
    }
  }
}

// Blocks of 64 rows in order, one column at a time; several blocks of the product's K, and several stripes of its columns.
TEST_P(LinearOps, TheBiasGradientHasItsOrder) {
  constexpr std::int64_t tokens = 1350;
  const Matrix dy(tokens, 213, 1), x(tokens, 500);
  Matrix db = vector_of(213), dw(213, 500);
  const Matrix before = db;
  fast_.backward_weight(dw.tensor, db.tensor, dy.tensor, x.tensor, true);
  for (std::int64_t j = 0; j < 213; ++j) {
    float sum = before.values[static_cast<std::size_t>(j)];
    for (std::int64_t block = 0; block < tokens; block += 64) {
      float part = 0;
      for (std::int64_t i = block; i < std::min<std::int64_t>(tokens, block + 64); ++i)
        part += dy.values[static_cast<std::size_t>(i * 214 + j)];
      sum += part;
    }
    EXPECT_EQ(db.values[static_cast<std::size_t>(j)], sum) << j;
  }
}

// numerics.md section 5: rows, columns and thread counts change no bit.
TEST_P(LinearOps, SlicesAndThreadsChangeNothing) {
  const Matrix x(90, 300), w(140, 300), bias = vector_of(140), dy(90, 140);
  Matrix y(90, 140), dx(90, 300), dw(140, 300), db = vector_of(140);
  fast_.forward(y.tensor, x.tensor, w.tensor, {.bias = bias.tensor, .activation = Activation::gelu});
  fast_.backward_input(dx.tensor, dy.tensor, w.tensor);
  fast_.backward_weight(dw.tensor, db.tensor, dy.tensor, x.tensor, false);
  for (const auto& other : test::machines()) {
    if (other->isa != GetParam()->isa) continue;
    SCOPED_TRACE(other->name);
    Linear& linear = other->ops->linear();
    Matrix y2(90, 140), dx2(90, 300), dw2(140, 300), db2 = vector_of(140);
    for (std::int64_t r = 0; r < 90; r += 30) {
      const Tensor rows = x.tensor.slice_rows(r, 30), to = y2.tensor.slice_rows(r, 30);
      for (std::int64_t c = 0; c < 140; c += 35)
        linear.forward(to.slice_columns(c, 35), rows, w.tensor.slice_rows(c, 35),
                       {.bias = bias.tensor.flat(c, 35), .activation = Activation::gelu});
      for (std::int64_t c = 0; c < 300; c += 75)
        linear.backward_input(dx2.tensor.slice_rows(r, 30).slice_columns(c, 75), dy.tensor.slice_rows(r, 30),
                              w.tensor.slice_columns(c, 75));
    }
    for (std::int64_t c = 0; c < 140; c += 35)
      linear.backward_weight(dw2.tensor.slice_rows(c, 35), db2.tensor.flat(c, 35), dy.tensor.slice_columns(c, 35), x.tensor,
                             false);
    EXPECT_EQ(y2.values, y.values);
    EXPECT_EQ(dx2.values, dx.values);
    EXPECT_EQ(dw2.values, dw.values);
    EXPECT_EQ(db2.values, db.values);
  }
}

TEST_P(LinearOps, RefusesWhatDoesNotFit) {
  const Matrix x(4, 6), w(5, 6);
  Matrix y(4, 5), wrong(4, 4), dx(4, 6);
  EXPECT_THROW(fast_.forward(wrong.tensor, x.tensor, w.tensor), BrokenRule);
  EXPECT_THROW(fast_.forward(y.tensor, x.tensor, w.tensor, {.bias = vector_of(4).tensor}), BrokenRule);
  EXPECT_THROW(fast_.backward_input(dx.tensor, y.tensor, w.tensor, {.activation = Activation::gelu}), BrokenRule);
  EXPECT_THROW(fast_.backward_weight(w.tensor, {}, wrong.tensor, x.tensor, false), BrokenRule);
  EXPECT_THROW(fast_.backward_weight(w.tensor, vector_of(4).tensor, y.tensor, x.tensor, false), BrokenRule);
  Tensor half = x.tensor;
  half.dtype = DType::bf16;
  EXPECT_THROW(fast_.forward(y.tensor, half, w.tensor), BrokenRule);
}

TEST(LinearWorkspace, IsFixedAndReported) {
  const test::Machine machine(Isa::automatic, 2);
  EXPECT_GT(machine.ops->workspace_bytes(), 1 << 20);
  EXPECT_LT(machine.ops->workspace_bytes(), 16 << 20);
}

}  // namespace
}  // namespace lockstep::ops
