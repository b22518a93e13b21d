#include "ops/dropout.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "reference/dropout.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

ops::DropoutSite site_of(float p, std::int64_t positions, std::int64_t first_sample = 0) {
  ops::DropoutSite site{.p = p, .first_sample = first_sample, .positions = {0, positions}};
  ops::make_key(site.key, 1337, 5, 2, ops::Site::mlp_out);
  return site;
}

class DropoutOf : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Storage, DropoutOf, storage_types);

TEST_P(DropoutOf, EqualsReference) {
  for (const auto& [samples, positions, width] :
       {std::tuple{1, 1, 1}, std::tuple{3, 7, 30}, std::tuple{2, 17, 65}, std::tuple{4, 5, 1025}, std::tuple{12, 64, 128}}) {
    const std::int64_t rows = samples * positions;
    const HostTensor x = HostTensor::random({rows, width}, 1).as(GetParam());
    const HostTensor residual = HostTensor::random({rows, width}, 2).as(GetParam());
    for (const float p : {0.0F, 1e-9F, 0.1F, 0.5F, 0.999F}) {
      const ops::DropoutSite site = site_of(p, positions, (std::int64_t{1} << 33) + 5);
      compare_everywhere(
          [&](ops::Ops& ops) {
            HostTensor y({rows, width}, GetParam()), plain = y, dx = y, over_x = x, over_residual = residual;
            ops.dropout().forward(y, x, site, residual);
            ops.dropout().forward(plain, x, site);
            ops.dropout().backward(dx, x, site);
            ops.dropout().forward(over_x, over_x, site, residual);
            ops.dropout().forward(over_residual, x, site, over_residual);
            EXPECT_EQ(different_bits(plain.values(), dx.values()), 0U);
            EXPECT_EQ(different_bits(over_x.values(), y.values()), 0U);
            EXPECT_EQ(different_bits(over_residual.values(), y.values()), 0U);
            return Results{y, dx};
          },
          2e-7);
    }
  }
}

TEST_P(DropoutOf, SamplesAnywhereDrawTheSameMask) {
  const HostTensor x = HostTensor::random({40, 50}, 1).as(GetParam());
  for (const auto& machine : machines()) {
    HostTensor whole({40, 50}, GetParam()), parts = whole;
    machine->ops->dropout().forward(whole, x, site_of(0.3F, 8, 7));
    for (std::int64_t sample = 0; sample < 5; ++sample) {
      machine->ops->dropout().forward(parts.tensor().slice_rows(8 * sample, 8), x.tensor().slice_rows(8 * sample, 8),
                                      site_of(0.3F, 8, 7 + sample));
    }
    EXPECT_EQ(different_bits(whole.values(), parts.values()), 0U);
  }
}

// Positions from both ends of a sample, and columns that begin anywhere: a part draws its part of the mask.
TEST_P(DropoutOf, PartsDrawTheirPartOfTheMask) {
  constexpr std::int64_t samples = 3, length = 12, width = 150;
  const HostTensor x = HostTensor::random({samples * length, width}, 1).as(GetParam());
  for (const auto& machine : machines()) {
    const HostTensor whole({samples * length, width}, GetParam());
    machine->ops->dropout().forward(whole, x, site_of(0.3F, length, 7));
    for (const ops::Positions& part : {ops::Positions({0, 3}, {9, 3}), ops::Positions(3, 6)}) {
      const HostTensor some = rows_of(x, length, part), y(some.tensor().shape, GetParam());
      for (const auto& [first, count] : {std::pair{0, 7}, std::pair{7, 61}, std::pair{68, 64}, std::pair{132, 18}}) {
        ops::DropoutSite site = site_of(0.3F, length, 7);
        site.positions = part;
        site.first_index = first;
        machine->ops->dropout().forward(y.tensor().slice_columns(first, count), some.tensor().slice_columns(first, count), site);
      }
      EXPECT_EQ(different_bits(y.values(), rows_of(whole, length, part).values()), 0U) << machine->name;
    }
  }
}

TEST_P(DropoutOf, PartsEqualReference) {
  const HostTensor x = HostTensor::random({12, 70}, 1).as(GetParam());
  for (const std::int64_t first : {1, 4, 30, 1000003}) {
    compare_everywhere(
        [&](ops::Ops& ops) {
          ops::DropoutSite site = site_of(0.4F, 6);
          site.positions = {{1, 2}, {30, 4}};
          site.first_index = first;
          HostTensor y({12, 70}, GetParam());
          ops.dropout().forward(y, x, site);
          return Results{y};
        },
        2e-7);
  }
}

TEST(Dropout, KeepsTheShareAndTheMean) {
  const HostTensor ones = HostTensor::filled({500, 400}, 1);
  HostTensor y({500, 400});
  machines().front()->ops->dropout().forward(y, ones, site_of(0.2F, 100));
  double sum = 0;
  for (const float value : y.values()) {
    EXPECT_TRUE(value == 0 || value == 1.25F);
    sum += value;
  }
  EXPECT_NEAR(sum / 200000, 1, 0.01);
}

TEST(Dropout, EveryPlaceHasItsOwnKey) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (const std::uint64_t seed : {1U, 2U}) {
    for (const std::int64_t step : {0, 1, 100000}) {
      for (const int layer : {0, 1, 47}) {
        for (const auto site :
             {ops::Site::embedding, ops::Site::attention_weights, ops::Site::attention_out, ops::Site::mlp_out}) {
          std::uint32_t key[2];
          ops::make_key(key, seed, step, layer, site);
          keys.emplace(key[0], key[1]);
        }
      }
    }
  }
  EXPECT_EQ(keys.size(), 2U * 3 * 3 * 4);
}

TEST(Dropout, ReferenceDrawsPhilox) {
  const CounterRng rng(7, "anything");
  const std::uint32_t key[2] = {rng.key()[0], rng.key()[1]};
  EXPECT_EQ(ops::reference::philox({3, 4, 5, 6}, key), rng.block(3 + (std::uint64_t{4} << 32), 5 + (std::uint64_t{6} << 32)));
}

TEST(Dropout, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Dropout& dropout = ops->dropout();
  const HostTensor x({4, 8}), narrow({4, 7});
  EXPECT_THROW(dropout.forward(narrow, x, site_of(0.1F, 4)), BrokenRule);
  EXPECT_THROW(dropout.forward(x, x, site_of(0.1F, 4), narrow), BrokenRule);
  EXPECT_THROW(dropout.backward(narrow, x, site_of(0.1F, 4)), BrokenRule);
  EXPECT_THROW(dropout.forward(x, x, site_of(1, 4)), BrokenRule);
  EXPECT_THROW(dropout.forward(x, x, site_of(-0.1F, 4)), BrokenRule);
  EXPECT_THROW(dropout.backward(x, x, site_of(0.1F, 0)), BrokenRule);
  EXPECT_THROW(dropout.backward(x, x, site_of(0.1F, 4, -1)), BrokenRule);
  EXPECT_THROW(dropout.backward(x, x, site_of(0.1F, 3)), BrokenRule);
  ops::DropoutSite before = site_of(0.1F, 4);
  before.first_index = -1;
  EXPECT_THROW(dropout.forward(x, x, before), BrokenRule);
  Tensor elsewhere = x;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(dropout.forward(elsewhere, x, site_of(0.1F, 4)), BrokenRule);
  EXPECT_THROW(dropout.backward(elsewhere, x, site_of(0.1F, 4)), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
