// Products of bf16 on tensor cores, emulated or of a GPU. They are near the reference. An element is a function of its row, its
// column and K alone.

#include <gtest/gtest.h>

#include <tuple>

#include "gpu_kinds.h"
#include "support/ops.h"
#include "support/staged_families.h"

namespace lockstep::test {
namespace {

using ops::Activation;

struct TensorCores {
  std::unique_ptr<Runtime> runtime = open_runtime({DeviceKind::cuda, 0});
  std::unique_ptr<Stream> stream = runtime->make_stream();
  support::StagedOps ops{*runtime, ops::make_ops(*runtime, *stream)};
};

/// body(linear layers on tensor cores) for every kind of GPU.
template <class Body>
void on_tensor_cores(const Body& body) {
  for_gpu_kinds([&] {
    TensorCores all;
    body(all.ops.linear());
  });
}

HostTensor half(Shape shape, std::uint32_t seed) { return HostTensor::random(shape, seed).as(DType::bf16); }
HostTensor empty_half(Shape shape) { return HostTensor(shape, DType::bf16); }

/// `got` is `expected` but for the order of additions, and for one step of bf16 where it is stored so.
void expect_near(const HostTensor& got, const HostTensor& expected, const char* what) {
  EXPECT_LE(distance(got.values(), expected.values(), expected.type()), 2e-5) << what;
}
void expect_same(const HostTensor& a, const HostTensor& b, const char* what) {
  EXPECT_EQ(different_bits(a.values(), b.values()), 0U) << what;
}

struct Sizes {
  std::int64_t rows, in, out;
};
constexpr Sizes sizes[] = {{1, 5, 1}, {3, 700, 67}, {8, 33, 130}, {21, 304, 72}, {150, 513, 131}, {130, 256, 136}};

TEST(TensorCoreProducts, EqualTheReference) {
  const auto reference = ops::make_reference_ops();
  for (const auto& [rows, in, out] : sizes) {
    SCOPED_TRACE(rows);
    const HostTensor x = half({rows, in}, 1), w = half({out, in}, 2), dy = half({rows, out}, 3), bias = half({out}, 4),
                     residual = half({rows, out}, 5), pre = half({rows, in}, 6);
    const auto run = [&](ops::Linear& linear) {
      HostTensor y = empty_half({rows, out}), kept = y, logits({rows, out}), dx = empty_half({rows, in}), wide_dx({rows, in});
      HostTensor dw = HostTensor::random({out, in}, 7), db = HostTensor::random({out}, 8);
      linear.forward(y, x, w, {.bias = bias, .pre_activation = kept, .residual = residual});
      linear.forward(logits, x, w);
      linear.backward_input(dx, dy, w, {.pre_activation = pre, .activation = Activation::silu});
      linear.backward_input(wide_dx, dy, w);
      linear.backward_weight(dw, db, dy, x, true);
      return Results{y, kept, logits, dx, wide_dx, dw, db};
    };
    const Results expected = run(reference->linear());
    on_tensor_cores([&](ops::Linear& linear) {
      const Results got = run(linear);
      for (std::size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i], std::to_string(i).c_str());
    });
  }
}

// Slices begin where no copy of 16 bytes can, and where one can.
TEST(TensorCoreProducts, SlicesHaveEqualBits) {
  constexpr std::int64_t rows = 150, in = 304, out = 140;
  const HostTensor x = half({rows, in}, 1), w = half({out, in}, 2), dy = half({rows, out}, 3);
  HostTensor y({rows, out}), dx({rows, in}), dw({out, in}), part_y = y, part_dx = dx, part_dw = dw;
  on_tensor_cores([&](ops::Linear& linear) {
    linear.forward(y, x, w);
    linear.backward_input(dx, dy, w);
    linear.backward_weight(dw, {}, dy, x, false);
    for (const auto& [row, row_count] : {std::pair{0, 1}, std::pair{1, 129}, std::pair{130, 20}}) {
      const Tensor some_x = x.tensor().slice_rows(row, row_count), some_dy = dy.tensor().slice_rows(row, row_count);
      for (const auto& [column, count] : {std::pair{0, 3}, std::pair{3, 72}, std::pair{75, 65}}) {
        linear.forward(part_y.tensor().slice_rows(row, row_count).slice_columns(column, count), some_x,
                       w.tensor().slice_rows(column, count));
        linear.backward_input(part_dx.tensor().slice_rows(row, row_count).slice_columns(2 * column, 2 * count), some_dy,
                              w.tensor().slice_columns(2 * column, 2 * count));
      }
      linear.backward_input(part_dx.tensor().slice_rows(row, row_count).slice_columns(280, 24), some_dy,
                            w.tensor().slice_columns(280, 24));
    }
    for (const auto& [column, count] : {std::pair{0, 8}, std::pair{8, 129}, std::pair{137, 3}})
      linear.backward_weight(part_dw.tensor().slice_rows(column, count), {}, dy.tensor().slice_columns(column, count), x, false);
    expect_same(part_y, y, "y");
    expect_same(part_dx, dx, "dx");
    expect_same(part_dw, dw, "dw");
  });
}

TEST(TensorCoreProducts, PartsThatEndAtBlocksHaveTheBitsOfOneCall) {
  constexpr std::int64_t rows = 30, in = 700, out = 50;
  const HostTensor x = half({rows, in}, 1), w = half({out, in}, 2), bias = half({out}, 3);
  const HostTensor whole = empty_half({rows, out}), y = whole, sums({rows, out});
  on_tensor_cores([&](ops::Linear& linear) {
    linear.forward(whole, x, w, {.bias = bias, .activation = Activation::gelu});
    const auto part = [&](const HostTensor& of, std::int64_t first, std::int64_t end) {
      return of.tensor().slice_columns(first, end - first);
    };
    linear.forward(sums, part(x, 0, 256), part(w, 0, 256));
    linear.forward(sums, part(x, 256, 512), part(w, 256, 512), {.sums = sums});
    linear.forward(y, part(x, 512, in), part(w, 512, in), {.bias = bias, .activation = Activation::gelu, .sums = sums});
    expect_same(y, whole, "y");
  });
}

TEST(TensorCoreProducts, BlocksOfTokensHaveTheBitsOfOneCall) {
  constexpr std::int64_t block = 8192, rows = 2 * block + 100, in = 16, out = 9;
  const HostTensor x = half({rows, in}, 1), dy = half({rows, out}, 2), whole({out, in}), parts({out, in});
  on_tensor_cores([&](ops::Linear& linear) {
    linear.backward_weight(whole, {}, dy, x, false);
    for (const auto& [first, count] : {std::pair{std::int64_t{0}, block}, std::pair{block, rows - block}}) {
      linear.backward_weight(parts, {}, dy.tensor().slice_rows(first, count), x.tensor().slice_rows(first, count), first > 0);
    }
    expect_same(parts, whole, "dw");
  });
}

// An operand in f32 beside one in bf16 is rounded. Two in f32, and sums by ranges, have the processor's bits.
TEST(TensorCoreProducts, AreThoseWithAnOperandInBf16) {
  constexpr std::int64_t rows = 40, in = 300, out = 72;
  const HostTensor x = half({rows, in}, 1), w = half({out, in}, 2), d_logits = HostTensor::random({rows, out}, 3);
  const ops::SumGrid grid{{{{0, 150}}, {{150, 150}}}};
  const auto run = [&](ops::Linear& linear) {
    HostTensor y({rows, out}), ranges({rows, out});
    linear.forward(y, x.as(DType::f32), w.as(DType::f32));
    linear.forward(ranges, x, w, {.grid = &grid});
    return Results{y, ranges};
  };
  const auto backward = [&](ops::Linear& linear, const HostTensor& gradient) {
    HostTensor dx({rows, in}), dw({out, in});
    linear.backward_input(dx, gradient, w);
    linear.backward_weight(dw, {}, gradient, x, false);
    return Results{dx, dw};
  };
  Machine cpu(ops::Isa::automatic, 1, ops::Bf16Order::widened);
  cpu.ops->take_sum_grids();
  const Results expected = run(cpu.ops->linear());
  on_tensor_cores([&](ops::Linear& linear) {
    const Results got = run(linear), wide = backward(linear, d_logits), rounded = backward(linear, d_logits.as(DType::bf16));
    for (std::size_t i = 0; i < got.size(); ++i) {
      expect_same(got[i], expected[i], std::to_string(i).c_str());
      expect_same(wide[i], rounded[i], "gradients");
    }
  });
}

}  // namespace
}  // namespace lockstep::test
