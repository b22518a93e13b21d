#include "ops/reduce.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/ops.h"

namespace lockstep::test {
namespace {

class ReduceOf : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, ReduceOf, storage_types);

TEST_P(ReduceOf, EqualsReference) {
  const auto reference = ops::make_reference_ops();
  for (const std::int64_t count : {1, 7, 17, 1025, 4096, 4097, 300000}) {
    const HostTensor x = HostTensor::random({count}, 1, 3).as(GetParam());
    const double expected = reference->reduce().sum_of_squares(x), largest = reference->reduce().max_abs(x);
    const double first = machines().front()->ops->reduce().sum_of_squares(x);
    for (const auto& machine : machines()) {
      SCOPED_TRACE(machine->name);
      const double sum = machine->ops->reduce().sum_of_squares(x);
      EXPECT_NEAR(sum, expected, 1e-12 * expected);
      // The square of a float is exact in double, so that even the baseline has the same bits.
      EXPECT_EQ(sum, first);
      EXPECT_EQ(machine->ops->reduce().max_abs(x), largest);
    }
  }
}

TEST_P(ReduceOf, SumOfChunksIsTheSum) {
  const HostTensor x = HostTensor::random({20000}, 1).as(GetParam());
  for (const auto& machine : machines()) {
    ops::Reduce& reduce = machine->ops->reduce();
    double sum = 0;
    for (std::int64_t i = 0; i < 20000; i += 4096) {
      sum += reduce.sum_of_squares(x.tensor().flat(i, std::min<std::int64_t>(4096, 20000 - i)));
    }
    EXPECT_EQ(sum, reduce.sum_of_squares(x));
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
      EXPECT_EQ(ops->reduce().max_abs(x.as(GetParam())), INFINITY);
      EXPECT_FALSE(std::isfinite(ops->reduce().sum_of_squares(x.as(GetParam()))));
      x[place] = -std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(ops->reduce().max_abs(x.as(GetParam()))));
      EXPECT_FALSE(std::isfinite(ops->reduce().sum_of_squares(x.as(GetParam()))));
    }
  }
}

TEST(Reduce, NothingIsZero) {
  const HostTensor none({0});
  for (const auto& machine : machines()) {
    EXPECT_EQ(machine->ops->reduce().sum_of_squares(none), 0);
    EXPECT_EQ(machine->ops->reduce().max_abs(none), 0);
  }
}

TEST(Reduce, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  const HostTensor x({4, 8});
  EXPECT_THROW(ops->reduce().sum_of_squares(x.tensor().slice_columns(0, 4)), BrokenRule);
  EXPECT_THROW(ops->reduce().max_abs(x.tensor().slice_columns(0, 4)), BrokenRule);
  EXPECT_THROW(ops->reduce().max_abs({}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
