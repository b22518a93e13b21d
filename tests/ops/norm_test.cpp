#include "ops/norm.h"

#include <gtest/gtest.h>

#include "support/norm_inputs.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

constexpr float eps = 1e-5F;

class NormSizes : public testing::TestWithParam<std::tuple<std::pair<std::int64_t, std::int64_t>, DType>> {
 protected:
  static NormInputs inputs() {
    const auto& [sizes, type] = GetParam();
    return {sizes.first, sizes.second, type};
  }
};

INSTANTIATE_TEST_SUITE_P(Odd, NormSizes,
                         testing::Combine(testing::Values(std::pair{1, 1}, std::pair{7, 30}, std::pair{64, 16}, std::pair{65, 17},
                                                          std::pair{130, 128}, std::pair{3, 1025}, std::pair{300, 768}),
                                          storage_types));

class NormOf : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, NormOf, storage_types);

TEST_P(NormSizes, ForwardEqualsReference) {
  const NormInputs in = inputs();
  for (const bool with_bias : {true, false}) {
    compare_everywhere(
        [&](ops::Ops& ops) {
          HostTensor n = in.matrix(), stats({in.rows, 2}), again = n;
          const Tensor bias = with_bias ? in.bias.tensor() : Tensor{};
          ops.norm(ops::NormForm::layer).forward(n, stats, in.x, in.gain, bias, eps);
          ops.norm(ops::NormForm::layer).apply(again, stats, in.x, in.gain, bias);
          EXPECT_EQ(different_bits(n.values(), again.values()), 0U);
          return Results{n, stats};
        },
        in.columns == 1 ? 1e-3 : 2e-6);
  }
}

TEST_P(NormSizes, BackwardEqualsReference) {
  const NormInputs in = inputs();
  HostTensor normed = in.matrix(), stats({in.rows, 2});
  ops::make_reference_ops()->norm(ops::NormForm::layer).forward(normed, stats, in.x, in.gain, in.bias, eps);
  for (const bool accumulate : {true, false}) {
    compare_everywhere(
        [&](ops::Ops& ops) {
          HostTensor dx = in.matrix(), n = dx;
          HostTensor d_gain = HostTensor::random({in.columns}, 6), d_bias = HostTensor::random({in.columns}, 7);
          ops.norm(ops::NormForm::layer)
              .backward({dx, n, d_gain, d_bias, in.dn, in.x, stats, in.gain, in.bias, in.residual, accumulate});
          return Results{dx, n, d_gain, d_bias};
        },
        1e-5);
  }
}

TEST_P(NormOf, BackwardInPlaceWithoutOptionalParts) {
  const NormInputs in(9, 40, GetParam());
  HostTensor normed = in.matrix(), stats({9, 2});
  ops::make_reference_ops()->norm(ops::NormForm::layer).forward(normed, stats, in.x, in.gain, {}, eps);
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor d_gain({40}), over_dn = in.dn, over_residual = in.residual;
        ops.norm(ops::NormForm::layer).backward({over_dn, {}, d_gain, {}, over_dn, in.x, stats, in.gain, {}, {}, false});
        ops.norm(ops::NormForm::layer)
            .backward({over_residual, {}, d_gain, {}, in.dn, in.x, stats, in.gain, {}, over_residual, true});
        return Results{over_dn, over_residual, d_gain};
      },
      1e-5);
}

// More rows than the workspace has partial sums for: the rounds add up to the same blocks in the same order.
TEST(Norm, BackwardInRounds) {
  const NormInputs in(150, 45000);
  HostTensor normed({150, 45000}), stats({150, 2});
  ops::make_reference_ops()->norm(ops::NormForm::layer).forward(normed, stats, in.x, in.gain, in.bias, eps);
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor dx({150, 45000}), d_gain({45000}), d_bias({45000});
        ops.norm(ops::NormForm::layer).backward({dx, {}, d_gain, d_bias, in.dn, in.x, stats, in.gain, in.bias, {}, false});
        return Results{dx, d_gain, d_bias};
      },
      1e-5);
}

TEST_P(NormOf, SlicesOfRowsHaveEqualBits) {
  const NormInputs in(130, 96, GetParam());
  for (const auto& machine : machines()) {
    ops::Norm& norm = machine->ops->norm(ops::NormForm::layer);
    HostTensor n = in.matrix(), stats({130, 2}), dx = n, d_gain({96}), d_bias({96});
    norm.forward(n, stats, in.x, in.gain, in.bias, eps);
    norm.backward({dx, {}, d_gain, d_bias, in.dn, in.x, stats, in.gain, in.bias, {}, false});
    HostTensor part_n = in.matrix(), part_stats({130, 2}), part_dx = part_n, part_gain({96}), part_bias({96});
    for (const auto& [first, count] : {std::pair{0, 64}, std::pair{64, 64}, std::pair{128, 2}}) {
      const auto rows = [&](const Tensor& t) { return t.slice_rows(first, count); };
      norm.forward(rows(part_n), rows(part_stats), rows(in.x), in.gain, in.bias, eps);
      norm.backward(
          {rows(part_dx), {}, part_gain, part_bias, rows(in.dn), rows(in.x), rows(part_stats), in.gain, in.bias, {}, first > 0});
    }
    EXPECT_EQ(different_bits(n.values(), part_n.values()), 0U);
    EXPECT_EQ(different_bits(dx.values(), part_dx.values()), 0U);
    EXPECT_EQ(different_bits(d_gain.values(), part_gain.values()), 0U);
    EXPECT_EQ(different_bits(d_bias.values(), part_bias.values()), 0U);
  }
}

TEST_P(NormOf, StridedRows) {
  const HostTensor wide = HostTensor::random({20, 100}, 8).as(GetParam()), gain = HostTensor::random({33}, 9).as(GetParam()),
                   bias = HostTensor::random({33}, 10).as(GetParam());
  compare_everywhere(
      [&](ops::Ops& ops) {
        HostTensor out({20, 80}, GetParam()), stats({20, 2});
        ops.norm(ops::NormForm::layer)
            .forward(out.tensor().slice_columns(5, 33), stats, wide.tensor().slice_columns(11, 33), gain, bias, eps);
        return Results{out, stats};
      },
      2e-6);
}

TEST(Norm, ReferenceAgainstFiniteDifferences) {
  NormInputs in(3, 30);
  const auto ops = ops::make_reference_ops();
  HostTensor n({3, 30}), stats({3, 2}), dx({3, 30}), d_gain({30}), d_bias({30});
  const auto loss = [&] {
    ops->norm(ops::NormForm::layer).forward(n, stats, in.x, in.gain, in.bias, eps);
    return inner(n, in.dn);
  };
  loss();
  ops->norm(ops::NormForm::layer).backward({dx, {}, d_gain, d_bias, in.dn, in.x, stats, in.gain, in.bias, {}, false});
  expect_gradient(dx, in.x, loss, 1e-2F, 1e-4);
  expect_gradient(d_gain, in.gain, loss, 1e-1F, 1e-5);
  expect_gradient(d_bias, in.bias, loss, 1e-1F, 1e-5);
}

TEST(Norm, RowsWiderThanTheWorkspaceAreRefused) {
  const HostTensor x({1, 140000}), stats({1, 2}), columns({140000});
  for (const auto& machine : machines()) {
    EXPECT_THROW(machine->ops->norm(ops::NormForm::layer).backward({x, {}, columns, {}, x, x, stats, columns, {}, {}, false}),
                 BrokenRule);
  }
}

TEST(Norm, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Norm& norm = ops->norm(ops::NormForm::layer);
  HostTensor x({4, 8}), n({4, 8}), stats({4, 2}), gain({8}), narrow_gain({7}), short_n({3, 8}), empty_columns({4, 0});
  EXPECT_THROW(norm.forward(short_n, stats, x, gain, {}, eps), BrokenRule);
  EXPECT_THROW(norm.forward(n, gain, x, narrow_gain, {}, eps), BrokenRule);
  EXPECT_THROW(norm.forward(n, stats, x, narrow_gain, {}, eps), BrokenRule);
  EXPECT_THROW(norm.forward(n, stats, x, gain, narrow_gain, eps), BrokenRule);
  EXPECT_THROW(norm.forward(n, stats, x, gain, {}, 0), BrokenRule);
  EXPECT_THROW(norm.forward({}, stats, x, gain, {}, eps), BrokenRule);
  EXPECT_THROW(norm.forward(empty_columns, stats, empty_columns, gain, {}, eps), BrokenRule);
  EXPECT_THROW(norm.apply(short_n, stats, x, gain, {}), BrokenRule);
  EXPECT_THROW(norm.backward({n, {}, narrow_gain, {}, n, x, stats, gain, {}, {}, false}), BrokenRule);
  EXPECT_THROW(norm.backward({n, {}, gain, narrow_gain, n, x, stats, gain, {}, {}, false}), BrokenRule);
  EXPECT_THROW(norm.backward({n, short_n, gain, {}, n, x, stats, gain, {}, {}, false}), BrokenRule);
  EXPECT_THROW(norm.backward({n, {}, gain, {}, short_n, x, stats, gain, {}, {}, false}), BrokenRule);
  EXPECT_THROW(norm.backward({n, {}, gain, {}, n, x, stats, gain, {}, short_n, false}), BrokenRule);
  EXPECT_THROW(norm.backward({short_n, {}, gain, {}, n, x, stats, gain, {}, {}, false}), BrokenRule);
  Tensor other_type = n, other_device = n, overlapping = n;
  other_type.dtype = DType::bf16;
  other_device.device.kind = DeviceKind::cuda;
  overlapping.row_stride = 4;
  EXPECT_THROW(norm.forward(other_type, stats, x, gain, {}, eps), BrokenRule);
  EXPECT_THROW(norm.forward(other_device, stats, x, gain, {}, eps), BrokenRule);
  EXPECT_THROW(norm.forward(overlapping, stats, x, gain, {}, eps), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
