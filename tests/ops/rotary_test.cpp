#include "ops/rotary.h"

#include <gtest/gtest.h>

#include "support/documents.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t most_positions = 12;

/// Cosines and sines of angles that depend on the position and the pair.
HostTensor some_angles(std::int64_t head_size) {
  HostTensor angles({most_positions, head_size});
  const std::int64_t half = head_size / 2;
  for (std::int64_t p = 0; p < most_positions; ++p) {
    for (std::int64_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(p) / static_cast<double>(1 + j);
      angles[static_cast<std::size_t>(p * head_size + j)] = static_cast<float>(std::cos(angle));
      angles[static_cast<std::size_t>(p * head_size + half + j)] = static_cast<float>(std::sin(angle));
    }
  }
  return angles;
}

struct Sizes {
  std::int64_t samples, positions, heads, head_size;
};

class RotarySizes : public testing::TestWithParam<std::tuple<Sizes, DType>> {};

INSTANTIATE_TEST_SUITE_P(Odd, RotarySizes,
                         testing::Combine(testing::Values(Sizes{1, 1, 1, 2}, Sizes{2, 5, 3, 10}, Sizes{3, 7, 4, 64},
                                                          Sizes{40, 11, 5, 128}, Sizes{1, 3, 2, 34}),
                                          storage_types));

class RotaryOf : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, RotaryOf, storage_types);

TEST_P(RotarySizes, EqualsReference) {
  const Sizes s = std::get<0>(GetParam());
  const HostTensor x = HostTensor::random({s.samples * s.positions, s.heads * s.head_size}, 1).as(std::get<1>(GetParam()));
  const HostTensor angles = some_angles(s.head_size);
  for (const bool inverse : {false, true}) {
    for (const std::int64_t first : {std::int64_t{0}, most_positions - s.positions}) {
      compare_everywhere(
          [&](ops::Ops& ops) {
            HostTensor y = x;
            ops.rotary().rotate(y, angles, {.positions = {first, s.positions}, .inverse = inverse});
            return Results{y};
          },
          1e-6);
    }
  }
  const ops::Positions ends({0, s.positions / 2},
                            {most_positions - s.positions + s.positions / 2, s.positions - s.positions / 2});
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor y = x;
        ops.rotary().rotate(y, angles, {.positions = ends});
        return Results{y};
      },
      1e-6);
}

TEST(Rotary, TurnsAPairByItsAngle) {
  const auto ops = ops::make_reference_ops();
  HostTensor x({2, 4}), angles({2, 4});
  x.values() = {1, 2, 3, 4, 1, 2, 3, 4};
  angles.values() = {1, 1, 0, 0, 0, 1, 1, 0};  // position 1 turns the first pair by a quarter
  ops->rotary().rotate(x, angles, {.positions = {0, 2}});
  EXPECT_EQ(x.values(), (std::vector<float>{1, 2, 3, 4, -3, 2, 1, 4}));
  ops->rotary().rotate(x, angles, {.positions = {0, 2}, .inverse = true});
  EXPECT_EQ(x.values(), (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4}));
}

// Heads, rows and a later start of the text: a value depends on none of them.
TEST_P(RotaryOf, SlicesHaveEqualBits) {
  const HostTensor x = HostTensor::random({2 * 9, 3 * 20}, 2).as(GetParam()), angles = some_angles(20);
  for (const auto& machine : machines()) {
    HostTensor whole = x, parts = x;
    machine->ops->rotary().rotate(whole, angles, {.positions = {0, 9}});
    for (std::int64_t sample = 0; sample < 2; ++sample) {
      for (const auto& [first, count] : {std::pair{0, 4}, std::pair{4, 5}}) {
        const Tensor rows = parts.tensor().slice_rows(sample * 9 + first, count);
        for (std::int64_t head = 0; head < 3; ++head) {
          machine->ops->rotary().rotate(rows.slice_columns(head * 20, 20), angles, {.positions = {first, count}});
        }
      }
    }
    EXPECT_EQ(different_bits(whole.values(), parts.values()), 0U) << machine->name;
  }
}

TEST_P(RotaryOf, RowsOfAnyPositionsHaveEqualBits) {
  const HostTensor x = HostTensor::random({3 * 12, 2 * 20}, 2).as(GetParam()), angles = some_angles(20);
  for (const auto& machine : machines()) {
    HostTensor whole = x;
    machine->ops->rotary().rotate(whole, angles, {.positions = {0, 12}});
    for (const ops::Positions& part : {ops::Positions({0, 3}, {9, 3}), ops::Positions(3, 6)}) {
      const HostTensor some = rows_of(x, 12, part);
      machine->ops->rotary().rotate(some, angles, {.positions = part});
      EXPECT_EQ(different_bits(some.values(), rows_of(whole, 12, part).values()), 0U) << machine->name;
    }
  }
}

TEST_P(RotaryOf, DocumentsAreTurnedFromTheirStarts) {
  support::Documents documents({3, 1, 5}, 2);
  const HostTensor x = HostTensor::random({2 * 9, 20}, 2).as(GetParam()), angles = some_angles(20);
  for (const auto& machine : machines()) {
    HostTensor whole = x;
    machine->ops->rotary().rotate(whole, angles, {.positions = {0, 9}, .starts = documents.starts()});
    for (const ops::PositionRun& document : {ops::PositionRun{0, 3}, {3, 1}, {4, 5}}) {
      const HostTensor alone = rows_of(x, 9, {document.first, document.count});
      machine->ops->rotary().rotate(alone, angles, {.positions = {0, document.count}});
      EXPECT_EQ(different_bits(alone.values(), rows_of(whole, 9, {document.first, document.count}).values()), 0U);
    }
  }
}

TEST(Rotary, TheInverseIsTheGradient) {
  const auto ops = ops::make_reference_ops();
  HostTensor x = HostTensor::random({6, 20}, 3), y({6, 20});
  const HostTensor dy = HostTensor::random({6, 20}, 4), angles = some_angles(10);
  const auto loss = [&] {
    y = x;
    ops->rotary().rotate(y, angles, {.positions = {5, 3}});
    return inner(y, dy);
  };
  HostTensor dx = dy;
  ops->rotary().rotate(dx, angles, {.positions = {5, 3}, .inverse = true});
  expect_gradient(dx, x, loss, 1e-1F, 1e-5);
}

TEST(Rotary, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Rotary& rotary = ops->rotary();
  const HostTensor x({6, 20}), angles({4, 10}), odd({4, 5}), wide({4, 12});
  EXPECT_THROW(rotary.rotate(x, odd, {.positions = {0, 3}}), BrokenRule);
  EXPECT_THROW(rotary.rotate(x, wide, {.positions = {0, 3}}), BrokenRule);
  EXPECT_THROW(rotary.rotate(x, angles, {.positions = {0, 4}}), BrokenRule);
  EXPECT_THROW(rotary.rotate(x, angles, {.positions = {0, 0}}), BrokenRule);
  EXPECT_THROW(rotary.rotate(x, angles, {.positions = {0, 6}}), BrokenRule);
  EXPECT_THROW(rotary.rotate(x, angles, {.positions = {2, 3}}), BrokenRule);
  EXPECT_THROW(rotary.rotate(x, angles, {.positions = {-1, 3}}), BrokenRule);
  Tensor elsewhere = x;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(rotary.rotate(elsewhere, angles, {.positions = {0, 3}}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
