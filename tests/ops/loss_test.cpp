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

struct Part {
  std::int64_t first, tokens, columns;
};

/// Parts of a vocabulary of 65 tokens: one, and two to four of them, uneven, padded, one without tokens.
const std::vector<std::vector<Part>>& divisions() {
  static const std::vector<std::vector<Part>> all{{{0, 65, 65}},
                                                  {{0, 32, 32}, {32, 33, 40}},
                                                  {{0, 1, 1}, {1, 63, 63}, {64, 1, 17}},
                                                  {{0, 30, 30}, {30, 30, 30}, {60, 5, 30}, {65, 0, 30}}};
  return all;
}

/// The losses, and the gradient of all columns when `scale` is not empty, of parts that ops compute one after another.
struct Divided {
  double loss = 1;
  HostTensor gradient;
};
Divided divide(ops::Ops& ops, const HostTensor& logits, std::vector<std::int32_t>& targets, const std::vector<Part>& parts,
               const Tensor& scale) {
  const std::int64_t rows = logits.tensor().rows(), columns = ops::Loss::summary_columns;
  std::vector<HostTensor> of_parts;
  std::vector<double> numbers(parts.size() * static_cast<std::size_t>(rows * columns), -5);
  const Tensor summaries = view(std::span(numbers), Shape{std::ssize(numbers)}).reshape({std::ssize(numbers) / columns, columns});
  const auto part_of = [&](std::size_t p) { return ops::VocabularyPart{static_cast<int>(p), parts[p].first, parts[p].tokens}; };
  for (std::size_t p = 0; p < parts.size(); ++p) {
    HostTensor& part = of_parts.emplace_back(HostTensor::filled({rows, parts[p].columns}, 1e6F));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < parts[p].tokens; ++j) {
        part.values()[static_cast<std::size_t>(i * parts[p].columns + j)] =
            logits[static_cast<std::size_t>(i * logits.tensor().columns() + parts[p].first + j)];
      }
    }
    const HostTensor before = part;
    ops.loss().summarise(summaries.slice_rows(static_cast<std::int64_t>(p) * rows, rows), part, ids_tensor(targets), part_of(p),
                         static_cast<bool>(scale));
    EXPECT_TRUE(scale || different_bits(part.values(), before.values()) == 0);
  }
  Divided result{.gradient = HostTensor(logits.tensor().shape)};
  for (std::size_t p = 0; p < parts.size(); ++p) {
    double loss = 1;
    ops.loss().finish(of_parts[p], ids_tensor(targets), part_of(p), summaries, scale, number_tensor(loss));
    EXPECT_TRUE(p == 0 || loss == result.loss || std::isnan(loss)) << "of part " << p;
    result.loss = loss;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < parts[p].columns; ++j) {
        const float value = of_parts[p][static_cast<std::size_t>(i * parts[p].columns + j)];
        if (j < parts[p].tokens) {
          result.gradient[static_cast<std::size_t>(i * logits.tensor().columns() + parts[p].first + j)] = value;
        } else if (scale) {
          EXPECT_EQ(value, 0) << "padding";
        }
      }
    }
  }
  return result;
}

TEST(Loss, PartsOfTheVocabularyGiveTheWholeOnesResult) {
  const HostTensor logits = HostTensor::random({130, 65}, 1, 8), scale = HostTensor::filled({1}, 0.01F);
  std::vector<std::int32_t> targets = random_ids(130, -1, 65, 2);
  double expected = 1;
  HostTensor gradient = logits;
  ops::make_reference_ops()->loss().forward(gradient, ids_tensor(targets), 65, scale, number_tensor(expected));
  for (const std::vector<Part>& parts : divisions()) {
    compare_everywhere(
        [&](ops::Ops& ops) {
          const Divided trained = divide(ops, logits, targets, parts, scale), evaluated = divide(ops, logits, targets, parts, {});
          EXPECT_EQ(trained.loss, evaluated.loss);
          EXPECT_NEAR(trained.loss, expected, 1e-6 * expected);
          EXPECT_LE(distance(trained.gradient.values(), gradient.values()), 1e-6);
          HostTensor sum({1});
          sum[0] = static_cast<float>(trained.loss);
          return Results{trained.gradient, sum};
        },
        1e-6);
  }
}

TEST(Loss, OnePartHasTheBitsOfTheWholeVocabulary) {
  const HostTensor logits = HostTensor::random({130, 65}, 1, 8), scale = HostTensor::filled({1}, 0.01F);
  std::vector<std::int32_t> targets = random_ids(130, -1, 65, 2);
  for (const auto& machine : machines()) {
    HostTensor gradient = logits;
    double loss = 1;
    machine->ops->loss().forward(gradient, ids_tensor(targets), 65, scale, number_tensor(loss));
    const Divided one = divide(*machine->ops, logits, targets, divisions()[0], scale);
    EXPECT_EQ(one.loss, loss);
    EXPECT_EQ(different_bits(one.gradient.values(), gradient.values()), 0U);
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
    for (const std::vector<Part>& parts : divisions()) {
      EXPECT_TRUE(std::isnan(divide(*machine->ops, logits, targets, parts, {}).loss));
    }
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
  std::vector<double> numbers(24);
  const Tensor summary = view(std::span(numbers), Shape{24}).flat(0, 12), summaries = view(std::span(numbers), Shape{24});
  const Tensor ids = ids_tensor(targets);
  EXPECT_THROW(loss.summarise(summary, logits, ids_tensor(few), {0, 0, 9}, false), BrokenRule);
  EXPECT_THROW(loss.summarise(summary, logits, ids, {0, 0, 10}, false), BrokenRule);
  EXPECT_THROW(loss.summarise(summary, logits, ids, {0, -1, 9}, false), BrokenRule);
  EXPECT_THROW(loss.summarise(summaries, logits, ids, {0, 0, 9}, false), BrokenRule);
  EXPECT_THROW(loss.summarise(logits, logits, ids, {0, 0, 9}, false), BrokenRule);
  EXPECT_THROW(loss.finish(logits, ids, {0, 0, 10}, summaries, {}, number_tensor(sum)), BrokenRule);
  EXPECT_THROW(loss.finish(logits, ids, {2, 0, 9}, summaries, {}, number_tensor(sum)), BrokenRule) << "there are two parts";
  EXPECT_THROW(loss.finish(logits, ids, {0, 0, 9}, summaries.flat(0, 13), {}, number_tensor(sum)), BrokenRule);
  EXPECT_THROW(loss.finish(logits, ids, {0, 0, 9}, summaries, two, number_tensor(sum)), BrokenRule);
  EXPECT_THROW(loss.finish(logits, ids, {0, 0, 9}, summaries, {}, two), BrokenRule);
  Tensor elsewhere = logits;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(loss.forward(elsewhere, ids_tensor(targets), 9, {}, number_tensor(sum)), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
