#include "ops/reduce.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/ops.h"

namespace lockstep::test {
namespace {

double squares(ops::Ops& ops, const Tensor& x) {
  double sum = -1;
  ops.reduce().sum_of_squares(number_tensor(sum), x);
  return sum;
}

double largest_of(ops::Ops& ops, const Tensor& x) {
  double largest = -1;
  ops.reduce().max_abs(number_tensor(largest), x);
  return largest;
}

class ReduceOf : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, ReduceOf, storage_types);

TEST_P(ReduceOf, EqualsReference) {
  const auto reference = ops::make_reference_ops();
  for (const std::int64_t count : {1, 7, 17, 1025, 4096, 4097, 300000}) {
    const HostTensor x = HostTensor::random({count}, 1, 3).as(GetParam());
    const double expected = squares(*reference, x), largest = largest_of(*reference, x);
    const double first = squares(*machines().front()->ops, x);
    for (const auto& machine : machines()) {
      SCOPED_TRACE(machine->name);
      const double sum = squares(*machine->ops, x);
      EXPECT_NEAR(sum, expected, 1e-12 * expected);
      // The square of a float is exact in double, so that even the baseline has the same bits.
      EXPECT_EQ(sum, first);
      EXPECT_EQ(largest_of(*machine->ops, x), largest);
    }
  }
}

TEST_P(ReduceOf, SumOfChunksIsTheSum) {
  const HostTensor x = HostTensor::random({20000}, 1).as(GetParam());
  for (const auto& machine : machines()) {
    double sum = 0;
    for (std::int64_t i = 0; i < 20000; i += 4096) {
      sum += squares(*machine->ops, x.tensor().flat(i, std::min<std::int64_t>(4096, 20000 - i)));
    }
    EXPECT_EQ(sum, squares(*machine->ops, x));
  }
}

TEST_P(ReduceOf, WhatIsNotFiniteIsSeen) {
  std::vector<ops::Ops*> all;
  const auto reference = ops::make_reference_ops();
  all.push_back(reference.get());
  for (const auto& machine : machines()) all.push_back(machine->ops.get());
  for (ops::Ops* ops : all) {
    for (const std::size_t place : {0U, 4999U}) {
      HostTensor x = HostTensor::random({5000}, 1);
      x[place] = -INFINITY;
      EXPECT_EQ(largest_of(*ops, x.as(GetParam())), INFINITY);
      EXPECT_FALSE(std::isfinite(squares(*ops, x.as(GetParam()))));
      x[place] = -std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(largest_of(*ops, x.as(GetParam()))));
      EXPECT_FALSE(std::isfinite(squares(*ops, x.as(GetParam()))));
    }
  }
}

TEST(Reduce, NothingIsZero) {
  const HostTensor none({0});
  for (const auto& machine : machines()) {
    EXPECT_EQ(squares(*machine->ops, none), 0);
    EXPECT_EQ(largest_of(*machine->ops, none), 0);
  }
}

TEST(Reduce, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  const HostTensor x({4, 8});
  EXPECT_THROW(squares(*ops, x.tensor().slice_columns(0, 4)), BrokenRule);
  EXPECT_THROW(largest_of(*ops, x.tensor().slice_columns(0, 4)), BrokenRule);
  EXPECT_THROW(largest_of(*ops, {}), BrokenRule);
  EXPECT_THROW(ops->reduce().sum_of_squares(HostTensor({1}), x), BrokenRule);  // f32
  std::vector<double> two(2);
  EXPECT_THROW(ops->reduce().max_abs(view(std::span(two), Shape{2}), x), BrokenRule);
  double sum = 0;
  Tensor elsewhere = number_tensor(sum);
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(ops->reduce().sum_of_squares(elsewhere, x), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
