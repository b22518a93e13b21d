#include "ops/split_norm.h"

#include <gtest/gtest.h>

#include "support/norm_inputs.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

constexpr float norm_eps = 1e-5F;

class SplitNormSizes : public testing::TestWithParam<std::tuple<std::pair<std::int64_t, std::int64_t>, DType>> {};

INSTANTIATE_TEST_SUITE_P(Odd, SplitNormSizes,
                         testing::Combine(testing::Values(std::pair{1, 1}, std::pair{7, 30}, std::pair{65, 17},
                                                          std::pair{130, 128}, std::pair{3, 1025}),
                                          storage_types));

/// Sums of squares and of products with the gradient, of `columns` of the inputs added to what `sums` has.
struct Parts {
  const NormInputs& in;
  ops::SplitNorm& norm;
  std::int64_t cut;
  template <class Make>
  HostTensor summed(const Make& make) const {
    HostTensor left({in.rows}), right({in.rows}), all({in.rows});
    make(left, 0, cut);
    if (cut < in.columns) make(right, cut, in.columns - cut);
    for (std::size_t i = 0; i < all.values().size(); ++i) all.values()[i] = left[i] + right[i];
    return all;
  }
};

// Two parts of the features, of which each makes its sums, are RMSNorm of all.
TEST_P(SplitNormSizes, PartsAreTheWholeNorm) {
  const auto& [sizes, type] = GetParam();
  const NormInputs in(sizes.first, sizes.second, type);
  const std::int64_t cut = (in.columns + 1) / 2;
  const auto reference = ops::make_reference_ops();
  HostTensor whole = in.matrix(), stats({in.rows, 2}), whole_dx = in.matrix(), whole_gain({in.columns});
  reference->norm(ops::NormForm::rms).forward(whole, stats, in.x, in.gain, {}, norm_eps);
  reference->norm(ops::NormForm::rms).backward({whole_dx, {}, whole_gain, {}, in.dn, in.x, stats, in.gain, {}, {}, false});
  compare_everywhere(
      [&](ops::Ops& ops) {
        ops::SplitNorm& norm = ops.split_norm();
        const Parts parts{in, norm, cut};
        HostTensor n = in.matrix(), dx = in.dn, rstd({in.rows}), d_gain({in.columns});
        const auto columns = [](const Tensor& of, std::int64_t first, std::int64_t count) {
          return of.slice_columns(first, count);
        };
        const auto for_parts = [&](const auto& work) {
          work(std::int64_t{0}, cut);
          if (cut < in.columns) work(cut, in.columns - cut);
        };
        const HostTensor squares = parts.summed(
            [&](const Tensor& to, std::int64_t first, std::int64_t count) { norm.squares(to, columns(in.x, first, count)); });
        for_parts([&](std::int64_t first, std::int64_t count) {
          norm.forward(columns(n, first, count), rstd, columns(in.x, first, count), in.gain.tensor().flat(first, count), squares,
                       in.columns, norm_eps);
        });
        const HostTensor dots = parts.summed([&](const Tensor& to, std::int64_t first, std::int64_t count) {
          norm.dots(to, columns(in.dn, first, count), columns(in.x, first, count), rstd, in.gain.tensor().flat(first, count));
        });
        for_parts([&](std::int64_t first, std::int64_t count) {
          const Tensor x = columns(in.x, first, count), d = columns(dx, first, count);
          norm.gain_gradient(d_gain.tensor().flat(first, count), d, x, rstd, false);
          norm.backward(d, d, x, rstd, in.gain.tensor().flat(first, count), dots, in.columns);
        });
        EXPECT_LT(distance(n.values(), whole.values(), type), 1e-5);
        EXPECT_LT(distance(dx.values(), whole_dx.values(), type), in.columns == 1 ? 1 : 1e-4);
        EXPECT_LT(distance(d_gain.values(), whole_gain.values()), 1e-4);
        return Results{n, rstd, d_gain};
      },
      1e-5);
}

TEST_P(SplitNormSizes, GradientWithoutProductsIsThatOfTheScale) {
  const auto& [sizes, type] = GetParam();
  const NormInputs in(sizes.first, sizes.second, type);
  const HostTensor rstd = HostTensor::filled({in.rows}, 2);
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor dx = in.matrix(), d_gain = HostTensor::random({in.columns}, 6);
        ops.split_norm().backward(dx, in.dn, in.x, rstd, in.gain, {}, in.columns);
        ops.split_norm().gain_gradient(d_gain, in.dn, in.x, rstd, true);
        return Results{dx, d_gain};
      },
      1e-5);
}

TEST(SplitNorm, SlicesOfRowsHaveEqualBits) {
  const NormInputs in(130, 96);
  for (const auto& machine : machines()) {
    ops::SplitNorm& norm = machine->ops->split_norm();
    HostTensor sums({130}), gain({96}), part_sums({130}), part_gain({96});
    const HostTensor rstd = HostTensor::random({130}, 8);
    norm.dots(sums, in.dn, in.x, rstd, in.gain);
    norm.gain_gradient(gain, in.dn, in.x, rstd, false);
    for (const auto& [first, count] : {std::pair{0, 64}, std::pair{64, 64}, std::pair{128, 2}}) {
      const auto rows = [&](const Tensor& t) { return t.slice_rows(first, count); };
      const Tensor of = rstd.tensor().flat(first, count);
      norm.dots(part_sums.tensor().flat(first, count), rows(in.dn), rows(in.x), of, in.gain);
      norm.gain_gradient(part_gain, rows(in.dn), rows(in.x), of, first > 0);
    }
    EXPECT_EQ(different_bits(sums.values(), part_sums.values()), 0U);
    EXPECT_EQ(different_bits(gain.values(), part_gain.values()), 0U);
  }
}

TEST(SplitNorm, ReferenceAgainstFiniteDifferences) {
  NormInputs in(3, 30);
  const auto ops = ops::make_reference_ops();
  ops::SplitNorm& norm = ops->split_norm();
  HostTensor n({3, 30}), rstd({3}), sums({3}), dots({3}), dx({3, 30}), d_gain({30});
  const auto loss = [&] {
    norm.squares(sums, in.x);
    norm.forward(n, rstd, in.x, in.gain, sums, 30, norm_eps);
    return inner(n, in.dn);
  };
  loss();
  norm.dots(dots, in.dn, in.x, rstd, in.gain);
  norm.gain_gradient(d_gain, in.dn, in.x, rstd, false);
  norm.backward(dx, in.dn, in.x, rstd, in.gain, dots, 30);
  expect_gradient(dx, in.x, loss, 1e-2F, 1e-4);
  expect_gradient(d_gain, in.gain, loss, 1e-1F, 1e-5);
}

TEST(SplitNorm, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::SplitNorm& norm = ops->split_norm();
  HostTensor x({4, 8}), n({4, 8}), rows({4}), gain({8}), narrow_gain({7}), short_n({3, 8}), few({3});
  EXPECT_THROW(norm.squares(few, x), BrokenRule);
  EXPECT_THROW(norm.forward(short_n, rows, x, gain, rows, 8, norm_eps), BrokenRule);
  EXPECT_THROW(norm.forward(n, rows, x, narrow_gain, rows, 8, norm_eps), BrokenRule);
  EXPECT_THROW(norm.forward(n, rows, x, gain, few, 8, norm_eps), BrokenRule);
  EXPECT_THROW(norm.forward(n, rows, x, gain, rows, 7, norm_eps), BrokenRule);
  EXPECT_THROW(norm.forward(n, rows, x, gain, rows, 8, 0), BrokenRule);
  EXPECT_THROW(norm.dots(few, n, x, rows, gain), BrokenRule);
  EXPECT_THROW(norm.dots(rows, short_n, x, rows, gain), BrokenRule);
  EXPECT_THROW(norm.gain_gradient(narrow_gain, n, x, rows, false), BrokenRule);
  EXPECT_THROW(norm.backward(n, n, x, few, gain, rows, 8), BrokenRule);
  EXPECT_THROW(norm.backward(n, n, x, rows, gain, few, 8), BrokenRule);
  EXPECT_THROW(norm.backward(n, n, x, rows, gain, rows, 7), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
