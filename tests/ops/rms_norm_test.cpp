// RMSNorm: what it shares with LayerNorm (rounds, strides, broken rules) is tested there.

#include <gtest/gtest.h>

#include "ops/norm.h"
#include "support/norm_inputs.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

constexpr float eps = 1e-5F;

using ops::NormForm;

const auto forms = testing::Values(NormForm::rms, NormForm::rms_unit_offset);

class RmsNormSizes : public testing::TestWithParam<std::tuple<std::pair<std::int64_t, std::int64_t>, DType, NormForm>> {};

INSTANTIATE_TEST_SUITE_P(Odd, RmsNormSizes,
                         testing::Combine(testing::Values(std::pair{1, 1}, std::pair{7, 30}, std::pair{65, 17},
                                                          std::pair{130, 128}, std::pair{3, 1025}, std::pair{300, 768}),
                                          storage_types, forms));

class RmsNormOf : public testing::TestWithParam<std::tuple<DType, NormForm>> {};

INSTANTIATE_TEST_SUITE_P(Storage, RmsNormOf, testing::Combine(storage_types, forms));

TEST_P(RmsNormSizes, EqualsReference) {
  const auto& [sizes, type, form] = GetParam();
  const NormInputs in(sizes.first, sizes.second, type);
  HostTensor normed = in.matrix(), kept({in.rows, 2});
  ops::make_reference_ops()->norm(form).forward(normed, kept, in.x, in.gain, {}, eps);
  for (const bool accumulate : {true, false}) {
    compare_everywhere(
        [&, kind = form](ops::Ops& ops) {
          ops::Norm& norm = ops.norm(kind);
          HostTensor n = in.matrix(), stats({in.rows, 2}), again = n, dx = n, n_of_backward = n, added = in.residual;
          HostTensor d_gain = HostTensor::random({in.columns}, 6);
          norm.forward(added, stats, in.x, in.gain, {}, eps, added);
          norm.forward(n, stats, in.x, in.gain, {}, eps);
          norm.apply(again, stats, in.x, in.gain, {});
          EXPECT_EQ(different_bits(n.values(), again.values()), 0U);
          for (std::int64_t i = 0; i < in.rows; ++i) EXPECT_EQ(stats[static_cast<std::size_t>(2 * i)], 0.0F);
          norm.backward({dx, n_of_backward, d_gain, {}, in.dn, in.x, kept, in.gain, {}, in.residual, accumulate});
          return Results{n, added, stats, dx, n_of_backward, d_gain};
        },
        1e-5);
  }
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  const auto ops = ops::make_reference_ops();
  HostTensor x({1, 4}), n({1, 4}), stats({1, 2});
  x.values() = {2, -2, 2, -2};
  ops->norm(NormForm::rms).forward(n, stats, x, HostTensor::filled({4}, 3), {}, 1e-12F);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(n[i], x[i] > 0 ? 3.0F : -3.0F);
  ops->norm(NormForm::rms_unit_offset).forward(n, stats, x, HostTensor::filled({4}, 3), {}, 1e-12F);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(n[i], x[i] > 0 ? 4.0F : -4.0F);
}

TEST_P(RmsNormOf, SlicesOfRowsHaveEqualBits) {
  const auto& [type, form] = GetParam();
  const NormInputs in(130, 96, type);
  for (const auto& machine : machines()) {
    ops::Norm& norm = machine->ops->norm(form);
    HostTensor n = in.matrix(), stats({130, 2}), dx = n, d_gain({96});
    norm.forward(n, stats, in.x, in.gain, {}, eps);
    norm.backward({dx, {}, d_gain, {}, in.dn, in.x, stats, in.gain, {}, {}, false});
    HostTensor part_n = in.matrix(), part_stats({130, 2}), part_dx = part_n, part_gain({96});
    for (const auto& [first, count] : {std::pair{0, 64}, std::pair{64, 64}, std::pair{128, 2}}) {
      const auto rows = [&](const Tensor& t) { return t.slice_rows(first, count); };
      norm.forward(rows(part_n), rows(part_stats), rows(in.x), in.gain, {}, eps);
      norm.backward({rows(part_dx), {}, part_gain, {}, rows(in.dn), rows(in.x), rows(part_stats), in.gain, {}, {}, first > 0});
    }
    EXPECT_EQ(different_bits(n.values(), part_n.values()), 0U);
    EXPECT_EQ(different_bits(dx.values(), part_dx.values()), 0U);
    EXPECT_EQ(different_bits(d_gain.values(), part_gain.values()), 0U);
  }
}

TEST(RmsNorm, ReferenceAgainstFiniteDifferences) {
  NormInputs in(3, 30);
  const auto ops = ops::make_reference_ops();
  for (const NormForm form : {NormForm::rms, NormForm::rms_unit_offset}) {
    HostTensor n({3, 30}), stats({3, 2}), dx({3, 30}), d_gain({30});
    const auto loss = [&] {
      ops->norm(form).forward(n, stats, in.x, in.gain, {}, eps);
      return inner(n, in.dn);
    };
    loss();
    ops->norm(form).backward({dx, {}, d_gain, {}, in.dn, in.x, stats, in.gain, {}, {}, false});
    expect_gradient(dx, in.x, loss, 1e-2F, 1e-4);
    expect_gradient(d_gain, in.gain, loss, 1e-1F, 1e-5);
  }
}

}  // namespace
}  // namespace lockstep::test
