#include "ops/loss.h"

#include <gtest/gtest.h>

#include "support/ops.h"

namespace lockstep::test {
namespace {

struct Sizes {
  std::int64_t rows, columns, vocabulary;
  float size;  // of the logits
};

class LossSizes : public testing::TestWithParam<Sizes> {};

INSTANTIATE_TEST_SUITE_P(Odd, LossSizes,
                         testing::Values(Sizes{1, 1, 1, 2}, Sizes{7, 65, 65, 5}, Sizes{130, 65, 60, 5}, Sizes{5, 1040, 1025, 30},
                                         Sizes{3, 64, 17, 300}, Sizes{6, 50304, 50257, 8}));

TEST_P(LossSizes, EqualsReference) {
  const auto [rows, columns, vocabulary, size] = GetParam();
  HostTensor logits = HostTensor::random({rows, columns}, 1, size);
  for (float& value : logits.values()) value -= 2 * size;
  std::vector<std::int32_t> targets = random_ids(static_cast<std::size_t>(rows), 0, static_cast<std::int32_t>(vocabulary), 2);
  if (rows > 3) targets[3] = -1;
  const HostTensor scale = HostTensor::filled({1}, 0.01F);
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor gradient = logits, left = logits, sum({1});
        double loss = 1, alone = 1;
        ops.loss().forward(gradient, ids_tensor(targets), vocabulary, scale, number_tensor(loss));
        ops.loss().forward(left, ids_tensor(targets), vocabulary, {}, number_tensor(alone));
        EXPECT_EQ(loss, alone);
        EXPECT_EQ(different_bits(left.values(), logits.values()), 0U);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = vocabulary; j < columns; ++j) EXPECT_EQ(gradient[static_cast<std::size_t>(i * columns + j)], 0);
        }
        sum[0] = static_cast<float>(loss);
        return Results{gradient, sum};
      },
      2e-6);
}

TEST(Loss, SlicesOfRowsHaveEqualBits) {
  const HostTensor logits = HostTensor::random({150, 65}, 1, 4), scale = HostTensor::filled({1}, 0.01F);
  std::vector<std::int32_t> targets = random_ids(150, -1, 65, 2);
  for (const auto& machine : machines()) {
    HostTensor whole = logits, parts = logits;
    double sum = 0, sum_of_parts = 0;
    machine->ops->loss().forward(whole, ids_tensor(targets), 65, scale, number_tensor(sum));
    for (const auto& [first, count] : {std::pair{0, 64}, std::pair{64, 64}, std::pair{128, 22}}) {
      machine->ops->loss().forward(parts.tensor().slice_rows(first, count), ids_tensor(targets).flat(first, count), 65, scale,
                                   number_tensor(sum_of_parts));
    }
    EXPECT_EQ(sum, sum_of_parts);
    EXPECT_EQ(different_bits(whole.values(), parts.values()), 0U);
  }
}

// More rows than the workspace has losses for.
TEST(Loss, ManyRows) {
  const HostTensor logits = HostTensor::random({140000, 3}, 1, 4);
  std::vector<std::int32_t> targets = random_ids(140000, 0, 3, 2);
  double expected = 0, sum = 0;
  ops::make_reference_ops()->loss().forward(logits, ids_tensor(targets), 3, {}, number_tensor(expected));
  machines().back()->ops->loss().forward(logits, ids_tensor(targets), 3, {}, number_tensor(sum));
  EXPECT_NEAR(sum, expected, 1e-6 * expected);
}

TEST(Loss, NotANumberIsSeen) {
  std::vector<std::int32_t> targets = {1};
  for (const auto& machine : machines()) {
    HostTensor logits = HostTensor::random({1, 65}, 1);
    logits[40] = NAN;
    double sum = 0;
    machine->ops->loss().forward(logits, ids_tensor(targets), 65, {}, number_tensor(sum));
    EXPECT_TRUE(std::isnan(sum));
  }
}

TEST(Loss, ReferenceAgainstFiniteDifferences) {
  const auto ops = ops::make_reference_ops();
  HostTensor logits = HostTensor::random({4, 9}, 1, 2);
  std::vector<std::int32_t> targets = {3, -1, 0, 7};
  const HostTensor scale = HostTensor::filled({1}, 1);
  const auto loss = [&] {
    double sum = 0;
    ops->loss().forward(logits, ids_tensor(targets), 8, {}, number_tensor(sum));
    return sum;
  };
  HostTensor gradient = logits;
  double sum = 0;
  ops->loss().forward(gradient, ids_tensor(targets), 8, scale, number_tensor(sum));
  expect_gradient(gradient, logits, loss, 1e-3F, 1e-5);
}

TEST(Loss, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Loss& loss = ops->loss();
  const HostTensor logits({4, 9}), two({2});
  std::vector<std::int32_t> targets(4), few(3);
  double sum = 0;
  EXPECT_THROW(loss.forward(logits, ids_tensor(few), 9, {}, number_tensor(sum)), BrokenRule);
  EXPECT_THROW(loss.forward(logits, ids_tensor(targets), 10, {}, number_tensor(sum)), BrokenRule);
  EXPECT_THROW(loss.forward(logits, ids_tensor(targets), 0, {}, number_tensor(sum)), BrokenRule);
  EXPECT_THROW(loss.forward(logits, ids_tensor(targets), 9, two, number_tensor(sum)), BrokenRule);
  EXPECT_THROW(loss.forward(logits, ids_tensor(targets), 9, {}, two), BrokenRule);
  Tensor elsewhere = logits;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(loss.forward(elsewhere, ids_tensor(targets), 9, {}, number_tensor(sum)), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
