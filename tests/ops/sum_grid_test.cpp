// Sums by the ranges of a grid (ops/sum_grid.h): each range by itself, and ranges as a tree.

#include "ops/sum_grid.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/sum_tree.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

using ops::IndexRun;
using ops::SumGrid;

/// `count` elements in `parts` ranges, as even as can be, numbers `first` to `first` + `some` of them, counted from the first.
SumGrid grid_of(std::int64_t count, int parts, int first = 0, int some = -1) {
  const auto place = [&](int part) { return part * count / parts; };
  SumGrid grid;
  for (int part = first; part < first + (some < 0 ? parts : some); ++part)
    grid.ranges.push_back({IndexRun{place(part) - place(first), place(part + 1) - place(part)}});
  return grid;
}

Tensor half(const Tensor& of, std::int64_t columns, bool second) {
  return of.slice_columns(second ? columns : 0, second ? of.columns() - columns : columns);
}

HostTensor sum_of(const HostTensor& a, const HostTensor& b) {
  HostTensor sum = a;
  for (std::size_t i = 0; i < sum.values().size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

class SumGridOf : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    for (const auto& machine : machines()) machine->ops->take_sum_grids();
  }
};

INSTANTIATE_TEST_SUITE_P(Storage, SumGridOf, storage_types);

TEST(SumTree, AddsAsRanksAreAdded) {
  std::vector<std::string> places(static_cast<std::size_t>(places_of_tree(8)));
  for (int i = 0; i < 8; ++i) {
    places[static_cast<std::size_t>(place_in_tree(i))] = std::to_string(i);
    merge_behind(i, [&](int to, int from) {
      std::string& sum = places[static_cast<std::size_t>(to)];
      sum = "(" + sum + places[static_cast<std::size_t>(from)] + ")";
    });
  }
  EXPECT_EQ(places.front(), "(((01)(23))((45)(67)))");
  EXPECT_EQ(places_of_tree(1), 1);
}

TEST_P(SumGridOf, ProductsAreThoseOfTheReference) {
  constexpr std::int64_t tokens = 201, in = 300, out = 230;
  const DType type = GetParam();
  const HostTensor x = HostTensor::random({tokens, in}, 1).as(type), w = HostTensor::random({out, in}, 2).as(type);
  const HostTensor dy = HostTensor::random({tokens, out}, 3).as(type), bias = HostTensor::random({out}, 4).as(type);
  const HostTensor residual = HostTensor::random({tokens, out}, 5).as(type);
  const SumGrid of_in = grid_of(in, 8), of_out = grid_of(out, 4), of_tokens = grid_of(tokens, 8);
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor y({tokens, out}, type), dx({tokens, in}, type), dw = HostTensor::random({out, in}, 6), db({out});
        ops.linear().forward(y, x, w, {.bias = bias, .residual = residual, .grid = &of_in});
        ops.linear().backward_input(dx, dy, w, {.grid = &of_out});
        ops.linear().backward_weight(dw, {}, dy, x, true, &of_tokens);
        HostTensor again({out, in});
        ops.linear().backward_weight(again, db, dy, x, false, &of_tokens);
        return Results{y, dx, dw, again, db};
      },
      2e-5);
}

// What two ranks with four ranges each add up to.
TEST_P(SumGridOf, HalvesOfTheRangesAddUpToTheBitsOfAll) {
  constexpr std::int64_t tokens = 66, in = 523, out = 70, middle = 4 * in / 8;
  const DType type = GetParam();
  const HostTensor x = HostTensor::random({tokens, in}, 1).as(type), w = HostTensor::random({out, in}, 2).as(type);
  const HostTensor dy = HostTensor::random({in, tokens}, 3).as(type), other = HostTensor::random({in, out}, 4).as(type);
  const SumGrid all = grid_of(in, 8), lower = grid_of(in, 8, 0, 4), upper = grid_of(in, 8, 4, 4);
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    ops::Linear& linear = machine->ops->linear();
    HostTensor whole({tokens, out}), first({tokens, out}), second({tokens, out});
    linear.forward(whole, x, w, {.grid = &all});
    linear.forward(first, half(x, middle, false), half(w, middle, false), {.grid = &lower});
    linear.forward(second, half(x, middle, true), half(w, middle, true), {.grid = &upper});
    EXPECT_EQ(different_bits(sum_of(first, second).values(), whole.values()), 0U);

    HostTensor dw({tokens, out}), db({tokens}), first_dw({tokens, out}), first_db({tokens}), second_dw({tokens, out}),
        second_db({tokens});
    const Tensor d = dy, o = other;
    linear.backward_weight(dw, db, d, o, false, &all);
    linear.backward_weight(first_dw, first_db, d.slice_rows(0, middle), o.slice_rows(0, middle), false, &lower);
    linear.backward_weight(second_dw, second_db, d.slice_rows(middle, in - middle), o.slice_rows(middle, in - middle), false,
                           &upper);
    EXPECT_EQ(different_bits(sum_of(first_dw, second_dw).values(), dw.values()), 0U);
    EXPECT_EQ(different_bits(sum_of(first_db, second_db).values(), db.values()), 0U);
  }
}

// q, k and v of a head lie apart.
TEST_P(SumGridOf, ARangeMayHaveSeveralRuns) {
  constexpr std::int64_t rows = 9, in = 40, out = 31;
  const HostTensor dy = HostTensor::random({rows, in}, 1).as(GetParam()), w = HostTensor::random({in, out}, 2).as(GetParam());
  const SumGrid apart{{{{0, 10}, {20, 10}}, {{10, 10}, {30, 10}}}};
  HostTensor moved_dy = dy, moved_w = w;  // the runs of a range behind each other
  const auto move = [](const Tensor& to, const Tensor& from, auto&& slice) {
    const std::array<std::int64_t, 4> places{0, 20, 10, 30};
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Tensor source = slice(from, places[i]), target = slice(to, 10 * static_cast<std::int64_t>(i));
      for (std::int64_t row = 0; row < source.rows(); ++row)
        std::memcpy(target.slice_rows(row, 1).data, source.slice_rows(row, 1).data, source.slice_rows(row, 1).bytes());
    }
  };
  move(moved_dy, dy, [](const Tensor& of, std::int64_t at) { return of.slice_columns(at, 10); });
  move(moved_w, w, [](const Tensor& of, std::int64_t at) { return of.slice_rows(at, 10); });
  const SumGrid together{{{{0, 10}, {10, 10}}, {{20, 10}, {30, 10}}}};
  for (const auto& machine : machines()) {
    HostTensor dx({rows, out}), moved({rows, out});
    machine->ops->linear().backward_input(dx, dy, w, {.grid = &apart});
    machine->ops->linear().backward_input(moved, moved_dy, moved_w, {.grid = &together});
    EXPECT_EQ(different_bits(dx.values(), moved.values()), 0U) << machine->name;
  }
}

TEST(SumGridOfAnyIndex, GridsThatMissElementsAreRefused) {
  HostTensor y({2, 3}), x({2, 10}), w({3, 10});
  ops::Ops& ops = *machines().front()->ops;
  ops.take_sum_grids();
  for (const SumGrid& wrong : {grid_of(9, 4), grid_of(10, 3), SumGrid{{{{5, 6}}, {{0, 4}}}}})
    EXPECT_THROW(ops.linear().forward(y, x, w, {.grid = &wrong}), BrokenRule);
}

TEST(SumGridOfAnyIndex, KernelsTakeTheirMemoryOnce) {
  const Machine machine(ops::Isa::automatic, 2);
  HostTensor y({2, 3}), x({2, 10}), w({3, 10});
  const SumGrid grid = grid_of(10, 2);
  EXPECT_THROW(machine.ops->linear().forward(y, x, w, {.grid = &grid}), BrokenRule);
  const std::int64_t before = machine.ops->workspace_bytes();
  machine.ops->take_sum_grids();
  const std::int64_t taken = machine.ops->workspace_bytes();
  EXPECT_GT(taken, before);
  machine.ops->take_sum_grids();
  EXPECT_EQ(machine.ops->workspace_bytes(), taken);
}

TEST_P(SumGridOf, RowsOfTokensAddUpAsRangesDo) {
  constexpr std::int64_t tokens = 90, width = 70, vocabulary = 12, middle = 4 * tokens / 8;
  const HostTensor dy = HostTensor::random({tokens, width}, 1).as(GetParam());
  std::vector<std::int32_t> ids = random_ids(tokens, 0, 20, 2);  // of which some are not in the table
  std::vector<std::int64_t> order(2 * tokens);
  const auto sums = [&](ops::Ops& ops, std::int64_t first, std::int64_t count, const SumGrid& grid) {
    HostTensor table = HostTensor::filled({vocabulary, width}, 0);
    const Tensor rows = dy, all = ids_tensor(ids);
    ops.embedding().backward_tokens(table, rows.slice_rows(first, count), all.flat(first, count), 3, grid,
                                    view(std::span(order).first(static_cast<std::size_t>(2 * count)), Shape{2 * count}));
    return table;
  };
  compare_everywhere([&](ops::Ops& ops) { return Results{sums(ops, 0, tokens, grid_of(tokens, 8))}; }, 1e-6);
  for (const auto& machine : machines()) {
    const HostTensor whole = sums(*machine->ops, 0, tokens, grid_of(tokens, 8));
    const HostTensor first = sums(*machine->ops, 0, middle, grid_of(tokens, 8, 0, 4));
    const HostTensor second = sums(*machine->ops, middle, tokens - middle, grid_of(tokens, 8, 4, 4));
    EXPECT_EQ(different_bits(sum_of(first, second).values(), whole.values()), 0U) << machine->name;
  }
}

using Digits = std::vector<std::int64_t>;

Digits squares_of(ops::Ops& ops, const Tensor& x, Digits digits = Digits(ops::Reduce::exact_digits)) {
  ops.reduce().exact_squares(view(std::span(digits), Shape{ops::Reduce::exact_digits}), x);
  return digits;
}

TEST_P(SumGridOf, ExactSquaresDoNotDependOnTheirOrder) {
  constexpr std::int64_t count = 20000;
  HostTensor numbers = HostTensor::random({count}, 1);
  for (std::size_t i = 0; i < count; ++i) numbers[i] *= std::ldexp(1.0F, static_cast<int>(i * 7 % 120) - 90);
  numbers[77] = 0x1p-149F;
  const HostTensor x = numbers.as(GetParam());
  HostTensor backwards = numbers;
  std::ranges::reverse(backwards.values());
  const HostTensor y = backwards.as(GetParam());
  const double expected = ops::Reduce::from_digits(squares_of(*ops::make_reference_ops(), x));
  for (const auto& machine : machines()) {
    SCOPED_TRACE(machine->name);
    EXPECT_EQ(ops::Reduce::from_digits(squares_of(*machine->ops, x)), expected);
    EXPECT_EQ(ops::Reduce::from_digits(squares_of(*machine->ops, y)), expected);
    Digits parts(ops::Reduce::exact_digits);
    for (std::int64_t i = 0; i < count; i += 333)
      parts = squares_of(*machine->ops, x.tensor().flat(i, std::min<std::int64_t>(333, count - i)), parts);
    EXPECT_EQ(ops::Reduce::from_digits(parts), expected);
    double sum = 0;
    machine->ops->reduce().sum_of_squares(number_tensor(sum), x);
    EXPECT_NEAR(expected, sum, 1e-12 * sum);
  }
}

TEST(ExactSquares, OfWholeNumbersAreKnown) {
  const HostTensor x = HostTensor::filled({4097}, 3);
  HostTensor largest = HostTensor::filled({3}, std::numeric_limits<float>::max());
  HostTensor wrong = HostTensor::filled({3}, 1);
  wrong[1] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& machine : machines()) {
    EXPECT_EQ(ops::Reduce::from_digits(squares_of(*machine->ops, x)), 9.0 * 4097);
    const double most = std::numeric_limits<float>::max();
    EXPECT_EQ(ops::Reduce::from_digits(squares_of(*machine->ops, largest)), 3 * most * most);
    EXPECT_TRUE(std::isinf(ops::Reduce::from_digits(squares_of(*machine->ops, wrong))));
    EXPECT_EQ(ops::Reduce::from_digits(squares_of(*machine->ops, x.tensor().flat(0, 0))), 0);
  }
}

}  // namespace
}  // namespace lockstep::test
