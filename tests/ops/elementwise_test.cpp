#include "ops/elementwise.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/ops.h"

namespace lockstep::test {
namespace {

Tensor bf16_tensor(std::vector<std::uint16_t>& values) {
  Tensor result;
  result.data = reinterpret_cast<std::byte*>(values.data());
  result.shape = Shape{std::ssize(values)};
  result.dtype = DType::bf16;
  return result;
}

class Counts : public testing::TestWithParam<std::tuple<std::int64_t, DType>> {
 protected:
  static std::int64_t count() { return std::get<0>(GetParam()); }
  static DType type() { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Odd, Counts, testing::Combine(testing::Values(1, 7, 17, 64, 1025, 70000), storage_types));

TEST_P(Counts, EqualsReference) {
  const HostTensor x = HostTensor::random({count()}, 1).as(type()), y = HostTensor::random({count()}, 2).as(type());
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor zero = x, filled = x, copy({count()}, type()), sum = y, scaled = x;
        ops.elementwise().zero(zero);
        ops.elementwise().fill(filled, 0.3F);
        ops.elementwise().cast(copy, x);
        ops.elementwise().add(sum, x);
        ops.elementwise().scale(scaled, 0.7F);
        return Results{zero, filled, copy, sum, scaled};
      },
      0);
}

TEST_P(Counts, SoftCapsEqualTheReference) {
  if (type() != DType::f32) GTEST_SKIP() << "logits are f32";
  const HostTensor x = HostTensor::random({count()}, 1, 9), d = HostTensor::random({count()}, 2);
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor capped = x, alone = x, tanhs = x, back = d;
        ops.elementwise().soft_cap(capped, tanhs, 4);
        ops.elementwise().soft_cap(alone, {}, 4);
        ops.elementwise().soft_cap_backward(back, tanhs);
        EXPECT_EQ(different_bits(capped.values(), alone.values()), 0U);
        return Results{capped, tanhs, back};
      },
      2e-6);
}

TEST(SoftCap, SlopeIsThatOfFiniteDifferences) {
  const auto ops = ops::make_reference_ops();
  HostTensor x = HostTensor::random({20}, 1, 3), tanhs = x, capped = x, d = HostTensor::random({20}, 2);
  const HostTensor weights = d;
  const auto loss = [&] {
    capped = x;
    ops->elementwise().soft_cap(capped, tanhs, 2);
    return inner(capped, weights);
  };
  loss();
  ops->elementwise().soft_cap_backward(d, tanhs);
  expect_gradient(d, x, loss, 1e-2F, 1e-4);
}

TEST_P(Counts, SumsAreFinishedAsInTheReference) {
  const HostTensor sums = HostTensor::random({3, count()}, 1), bias = HostTensor::random({count()}, 2).as(type()),
                   residual = HostTensor::random({3, count()}, 3).as(type());
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor all({3, count()}, type()), without_bias = all, plain = all, in_place = residual;
        ops.elementwise().finish_sums(all, sums, bias, residual);
        ops.elementwise().finish_sums(without_bias, sums, {}, residual);
        ops.elementwise().finish_sums(plain, sums, {}, {});
        ops.elementwise().finish_sums(in_place, sums, bias, in_place);
        return Results{all, without_bias, plain, in_place};
      },
      1e-6);
}

TEST_P(Counts, RandomNumbersEqualReference) {
  const CounterRng rng(1337, "h.0.attn.c_attn.weight");
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor normal({count()}, type()), later = normal, uniform = normal;
        ops.elementwise().normal(normal, rng, 0, 0, 0.02F);
        ops.elementwise().normal(later, rng, (std::int64_t{1} << 35) + 13, 0.5F, 1);
        ops.elementwise().uniform(uniform, rng, 5, -2, 3);
        return Results{normal, later, uniform};
      },
      1e-6);
}

class ElementwiseOf : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, ElementwiseOf, storage_types);

TEST_P(ElementwiseOf, NormalNumbersBelongToTheirPlace) {
  const CounterRng rng(3, "wte.weight");
  std::vector<float> first;
  for (const auto& machine : machines()) {
    HostTensor whole({1000}, GetParam()), parts = whole;
    machine->ops->elementwise().normal(whole, rng, 40, 0, 1);
    for (const auto& [begin, count] : {std::pair{0, 1}, std::pair{1, 130}, std::pair{131, 64}, std::pair{195, 805}}) {
      machine->ops->elementwise().normal(parts.tensor().flat(begin, count), rng, 40 + begin, 0, 1);
    }
    EXPECT_EQ(different_bits(whole.values(), parts.values()), 0U);
    if (first.empty()) first = whole.values();
    if (machine->isa != ops::Isa::baseline) {
      EXPECT_EQ(different_bits(whole.values(), first), 0U);
    }
  }
}

TEST(Elementwise, NormalNumbersAreNormal) {
  const std::int64_t count = 1 << 20;
  HostTensor x({count});
  machines().front()->ops->elementwise().normal(x, CounterRng(1, "a"), 0, 0, 1);
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, largest = 0;
  for (std::size_t i = 0; i < x.values().size(); ++i) {
    const double value = x[i];
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
    neighbours += value * x[i ^ 1];
    largest = std::max(largest, std::fabs(value));
  }
  EXPECT_NEAR(sum / count, 0, 4e-3);
  EXPECT_NEAR(squares / count, 1, 6e-3);
  EXPECT_NEAR(fourth / count, 3, 0.05);
  EXPECT_NEAR(neighbours / count, 0, 4e-3);
  EXPECT_GT(largest, 4.3);
  EXPECT_LT(largest, 6.7);
}

std::vector<ops::Ops*> with_machines(ops::Ops& reference) {
  std::vector<ops::Ops*> all{&reference};
  for (const auto& machine : machines()) all.push_back(machine->ops.get());
  return all;
}

TEST(Elementwise, CastRoundsToNearestEven) {
  const std::vector<std::pair<float, std::uint16_t>> cases = {
      {1.0F, 0x3F80},  {0x1.01p0F, 0x3F80}, {0x1.03p0F, 0x3F82},   {0x1.010002p0F, 0x3F81},
      {-0.0F, 0x8000}, {INFINITY, 0x7F80},  {0x1.FFp127F, 0x7F80}, {1e-40F, 0x0001},
      {-2.5F, 0xC020}, {3.0F, 0x4040},      {0x1.FEFFp0F, 0x3FFF}, {65536.0F, 0x4780},
  };
  HostTensor x({40}), back({40});
  for (std::size_t i = 0; i < 40; ++i) x[i] = i < 39 ? cases[i % cases.size()].first : std::bit_cast<float>(0x7FFFFFFFU);
  const auto reference = ops::make_reference_ops();
  for (ops::Ops* ops : with_machines(*reference)) {
    std::vector<std::uint16_t> half(40), copy(40);
    ops->elementwise().cast(bf16_tensor(half), x);
    for (std::size_t i = 0; i < 39; ++i) EXPECT_EQ(half[i], cases[i % cases.size()].second) << x[i];
    ops->elementwise().cast(back, bf16_tensor(half));
    EXPECT_TRUE(std::isnan(back[39]));
    for (std::size_t i = 0; i < 39; ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]), static_cast<std::uint32_t>(half[i]) << 16);
    }
    ops->elementwise().cast(bf16_tensor(copy), bf16_tensor(half));
    EXPECT_EQ(copy, half);
  }
}

Tensor low_tensor(std::vector<std::uint16_t>& values) { return view(std::span(values), Shape{std::ssize(values)}); }

// The upper half is the nearest, ties away from zero.
TEST(Elementwise, HalvesOfANumberAreTheNearestBf16AndTheRest) {
  const std::vector<std::pair<float, std::uint16_t>> cases = {
      {1.0F, 0x3F80},  {0x1.01p0F, 0x3F81},  {0x1.03p0F, 0x3F82},   {0x1.00FFFEp0F, 0x3F80},
      {-0.0F, 0x8000}, {-INFINITY, 0xFF80},  {0x1.FFp127F, 0x7F80}, {1e-40F, 0x0001},
      {-2.5F, 0xC020}, {-0x1.01p0F, 0xBF81}, {0x1.FEFFp0F, 0x3FFF}, {std::numeric_limits<float>::max(), 0x7F80},
  };
  HostTensor x({37}), back({37});
  for (std::size_t i = 0; i < 36; ++i) x[i] = cases[i % cases.size()].first;
  x[36] = std::bit_cast<float>(0x7FFFFFFFU);  // not a number
  const auto reference = ops::make_reference_ops();
  for (ops::Ops* ops : with_machines(*reference)) {
    std::vector<std::uint16_t> high(37), low(37), alone(37);
    ops->elementwise().split(bf16_tensor(high), low_tensor(low), x);
    for (std::size_t i = 0; i < 36; ++i) EXPECT_EQ(high[i], cases[i % cases.size()].second) << x[i];
    ops->elementwise().join(back, bf16_tensor(high), low_tensor(low));
    EXPECT_TRUE(std::isnan(to_float(static_cast<BFloat16>(high[36]))));
    EXPECT_TRUE(std::isnan(back[36]));
    back[36] = x[36];
    EXPECT_EQ(different_bits(back.values(), x.values()), 0U);
    ops->elementwise().split(bf16_tensor(alone), {}, x);
    EXPECT_EQ(alone, high);
  }
}

TEST(Elementwise, HalvesOfEveryNumberAreItsBits) {
  std::mt19937 engine(1);
  for (const std::int64_t count : {1, 17, 70000}) {
    HostTensor x({count}), back({count});
    for (float& value : x.values()) {
      do value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
      while (std::isnan(value));
    }
    const auto reference = ops::make_reference_ops();
    std::vector<std::uint16_t> expected;
    for (ops::Ops* ops : with_machines(*reference)) {
      std::vector<std::uint16_t> high(x.values().size()), low(x.values().size());
      ops->elementwise().split(bf16_tensor(high), low_tensor(low), x);
      ops->elementwise().join(back, bf16_tensor(high), low_tensor(low));
      EXPECT_EQ(different_bits(back.values(), x.values()), 0U);
      if (expected.empty()) expected = high;
      EXPECT_EQ(high, expected);
    }
  }
}

// Column slices of wider matrices, as messages between ranks are packed and unpacked.
TEST(Elementwise, SlicesAreCastAndAddedAsDenseMatricesAre) {
  const auto reference = ops::make_reference_ops();
  for (ops::Ops* ops : with_machines(*reference)) {
    HostTensor x({5, 9}), y({5, 7});
    for (std::size_t i = 0; i < 45; ++i) x[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < 35; ++i) y[i] = 1000;
    std::vector<std::uint16_t> half(5 * 4);
    Tensor packed = bf16_tensor(half).reshape({5, 4});
    ops->elementwise().cast(packed, x.tensor().slice_columns(3, 4));
    ops->elementwise().cast(y.tensor().slice_columns(1, 4), packed);
    ops->elementwise().add(y.tensor().slice_columns(2, 2), x.tensor().slice_columns(0, 2));
    for (std::size_t row = 0; row < 5; ++row) {
      for (std::size_t column = 0; column < 7; ++column) {
        const bool cast = column >= 1 && column < 5, added = column == 2 || column == 3;
        const float base = cast ? static_cast<float>(9 * row + 3 + column - 1) : 1000;
        EXPECT_EQ(y[7 * row + column], base + (added ? static_cast<float>(9 * row + column - 2) : 0)) << row << " " << column;
      }
    }
    EXPECT_THROW(ops->elementwise().cast(y.tensor().slice_columns(0, 3), packed), BrokenRule);
    EXPECT_THROW(ops->elementwise().add(y.tensor().slice_columns(0, 4), packed), BrokenRule);
  }
}

TEST(Elementwise, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Elementwise& elementwise = ops->elementwise();
  const HostTensor x({4, 8}), shorter({31});
  const Tensor strided = x.tensor().slice_columns(0, 4);
  std::vector<std::uint16_t> high(32), low(31);
  EXPECT_THROW(elementwise.split(x, {}, x), BrokenRule);
  EXPECT_THROW(elementwise.split(bf16_tensor(high), low_tensor(low), x), BrokenRule);
  EXPECT_THROW(elementwise.join(x, bf16_tensor(high), {}), BrokenRule);
  const CounterRng rng(1, "a");
  EXPECT_THROW(elementwise.zero(strided), BrokenRule);
  EXPECT_THROW(elementwise.fill(strided, 1), BrokenRule);
  EXPECT_THROW(elementwise.scale(strided, 1), BrokenRule);
  EXPECT_THROW(elementwise.soft_cap(strided, {}, 1), BrokenRule);
  EXPECT_THROW(elementwise.soft_cap(x, shorter, 1), BrokenRule);
  EXPECT_THROW(elementwise.soft_cap(x, {}, 0), BrokenRule);
  EXPECT_THROW(elementwise.soft_cap_backward(x, shorter), BrokenRule);
  EXPECT_THROW(elementwise.cast(shorter, x), BrokenRule);
  EXPECT_THROW(elementwise.add(shorter, x), BrokenRule);
  EXPECT_THROW(elementwise.normal(strided, rng, 0, 0, 1), BrokenRule);
  EXPECT_THROW(elementwise.normal(x, rng, -1, 0, 1), BrokenRule);
  EXPECT_THROW(elementwise.normal(x, rng, 0, 0, -1), BrokenRule);
  EXPECT_THROW(elementwise.uniform(strided, rng, 0, 0, 1), BrokenRule);
  EXPECT_THROW(elementwise.uniform(x, rng, -1, 0, 1), BrokenRule);
  EXPECT_THROW(elementwise.uniform(x, rng, 0, 1, 0), BrokenRule);
  std::vector<std::int32_t> ids(32);
  EXPECT_THROW(elementwise.cast(x, ids_tensor(ids)), BrokenRule);
  Tensor elsewhere = x;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(elementwise.cast(elsewhere, x), BrokenRule);
  EXPECT_THROW(elementwise.add(elsewhere, x), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
