// Weights stored for few rows: the same bits as before, for every reader.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "ops/cpu/product/product.h"
#include "support/ops.h"

namespace lockstep::ops {
namespace {

using test::HostTensor;

class PrepackedOn : public testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  DType type_ = std::get<1>(GetParam());
  test::Machine machine_{std::get<0>(GetParam()), 2};
  Linear& linear_ = machine_.ops->linear();
};
INSTANTIATE_TEST_SUITE_P(IsasAndTypes, PrepackedOn, testing::Combine(testing::ValuesIn(available_isas()), test::storage_types));

TEST_P(PrepackedOn, ProductsHaveTheSameBits) {
  constexpr std::int64_t most = 70;
  for (const std::int64_t k : {8, 256, 520, 776}) {
    for (const std::int64_t n : {5, 8, 17, 64, 147}) {
      const HostTensor x = HostTensor::random({most, k}, 1).as(type_), w = HostTensor::random({n, k}, 2).as(type_);
      const HostTensor bias = HostTensor::random({n}, 3).as(type_), memory = w, room({n, k}, type_);
      const Tensor in_place = linear_.prepack(memory, memory), copy = linear_.prepack(w, room);
      for (const Tensor& packed : {in_place, copy}) {
        EXPECT_EQ(packed.order, n >= 8 ? Order::tiles : Order::rows) << "what has no eight rows stays as it is";
      }
      EXPECT_EQ(copy.data, n >= 8 ? room.tensor().data : w.tensor().data);
      for (const std::int64_t rows : {1, 2, 3, 4, 5, 8, 9, 70}) {
        const Tensor few = x.tensor().slice_rows(0, rows);
        const HostTensor expected({rows, n}, type_), a({rows, n}, type_), b({rows, n}, type_);
        const Epilogue epilogue{.bias = bias, .activation = Activation::silu};
        linear_.forward(expected, few, w, epilogue);
        linear_.forward(a, few, in_place, epilogue);
        linear_.forward(b, few, copy, epilogue);
        EXPECT_EQ(a.values(), expected.values()) << rows << " x " << n << " x " << k;
        EXPECT_EQ(b.values(), expected.values()) << rows << " x " << n << " x " << k << ", a copy";
      }
    }
  }
}

TEST_P(PrepackedOn, RowsOfItAreTakenInWholeTiles) {
  const HostTensor x = HostTensor::random({3, 40}, 1).as(type_), w = HostTensor::random({45, 40}, 2).as(type_), memory = w;
  const Tensor packed = linear_.prepack(memory, memory);
  struct Rows {
    std::int64_t first, count;
  };
  for (const Rows& rows : {Rows{0, 16}, Rows{8, 32}, Rows{16, 29}, Rows{40, 5}}) {
    const HostTensor expected({3, rows.count}, type_), result({3, rows.count}, type_);
    linear_.forward(expected, x, w.tensor().slice_rows(rows.first, rows.count));
    linear_.forward(result, x, packed.slice_rows(rows.first, rows.count));
    EXPECT_EQ(result.values(), expected.values()) << rows.first;
  }
  EXPECT_THROW(packed.slice_rows(4, 4), BrokenRule);
  EXPECT_THROW(packed.slice_rows(8, 12), BrokenRule);
}

// Kernels know it by the tensor, not by its place: what comes to lie there later is read as it is.
TEST_P(PrepackedOn, ItsMemoryMayBeUsedAgain) {
  const HostTensor x = HostTensor::random({3, 16}, 1).as(type_), first = HostTensor::random({8, 16}, 2).as(type_);
  HostTensor memory = first;
  const HostTensor expected({3, 8}, type_), result({3, 8}, type_);
  linear_.forward(expected, x, first);
  linear_.forward(result, x, linear_.prepack(memory, memory));
  EXPECT_EQ(result.values(), expected.values());

  const HostTensor second = HostTensor::random({8, 16}, 3).as(type_);
  std::memcpy(memory.tensor().data, second.tensor().data, second.tensor().bytes());
  linear_.forward(expected, x, second);
  linear_.forward(result, x, memory);
  EXPECT_EQ(result.values(), expected.values());
}

TEST_P(PrepackedOn, ProductsForwardAloneTakeIt) {
  const HostTensor x = HostTensor::random({3, 16}, 1).as(type_), w = HostTensor::random({8, 16}, 2).as(type_), memory = w;
  const HostTensor odd = HostTensor::random({8, 12}, 2).as(type_), dy({3, 8}, type_), dx({3, 16}, type_), y({3, 8}, type_);
  EXPECT_EQ(linear_.prepack(odd, odd).order, Order::rows) << "12 in-features are no tiles";
  const Tensor packed = linear_.prepack(memory, memory);
  EXPECT_THROW(linear_.prepack(packed, packed), BrokenRule);
  EXPECT_THROW(linear_.prepack(x.tensor().slice_columns(0, 8), x.tensor().slice_columns(0, 8)), BrokenRule);
  EXPECT_THROW(linear_.prepack(x, memory), BrokenRule);
  EXPECT_THROW(linear_.backward_input(dx, dy, packed), BrokenRule);
  EXPECT_THROW(linear_.forward(y, packed.slice_rows(0, 8), w), BrokenRule);
  EXPECT_THROW(machine_.ops->elementwise().scale(packed, 2), BrokenRule);
  EXPECT_THROW(machine_.ops->embedding().take_rows(dx, packed, {}), BrokenRule);
}

TEST(Prepacked, TheReferenceReadsRows) {
  const auto reference = make_reference_ops();
  const HostTensor w = HostTensor::random({8, 8}, 2), same = w, x({1, 8}), y({1, 8});
  Tensor packed = reference->linear().prepack(w, w);
  EXPECT_EQ(packed.order, Order::rows);
  EXPECT_EQ(w.values(), same.values());
  packed.order = Order::tiles;
  EXPECT_THROW(reference->linear().forward(y, x, packed), BrokenRule);
}

void expect_equal_bits(Isa isa, cpu::Bf16Way way) {
  Team team(2);
  cpu::Product product(team, isa, host_memory(), way);
  constexpr std::int64_t n = 43, k = 520;
  const HostTensor x = HostTensor::random({20, k}, 1).as(DType::bf16), w = HostTensor::random({n, k}, 2).as(DType::bf16),
                   packed = w;
  const std::int64_t tiled = product.store_in_tiles(packed.tensor().data, packed.tensor().data, DType::bf16, n, k);
  EXPECT_EQ(tiled, 40);
  for (const std::int64_t rows : {1, 3, 8, 20}) {
    std::vector<float> expected(static_cast<std::size_t>(rows * n)), result = expected;
    cpu::ProductTask task{.m = rows,
                          .n = n,
                          .k = k,
                          .a = x.tensor().data,
                          .a_stride = k,
                          .a_transposed = false,
                          .a_type = DType::bf16,
                          .b = w.tensor().data,
                          .b_stride = k,
                          .b_transposed = true,
                          .b_type = DType::bf16,
                          .c = expected.data(),
                          .c_stride = n};
    product.run(task);
    task.b = packed.tensor().data;
    task.b_tiled = tiled;
    task.c = result.data();
    product.run(task);
    EXPECT_EQ(result, expected) << rows;
  }
}

// The orders of bf16 that few processors take by themselves.
TEST(Prepacked, EveryOrderOfBf16HasTheSameBits) {
  const std::vector<Isa> isas = available_isas();
  if (std::ranges::find(isas, Isa::avx2) == isas.end()) GTEST_SKIP() << "this processor has no fused multiply-add";
  for (const Bf16Order order : {Bf16Order::pairs, Bf16Order::amx})
    for (const Isa isa : {Isa::avx2, isas.front()}) expect_equal_bits(isa, cpu::way_of(order, isa));
}

}  // namespace
}  // namespace lockstep::ops
