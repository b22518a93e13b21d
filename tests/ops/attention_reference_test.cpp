#include <gtest/gtest.h>

#include "ops/attention.h"
#include "support/ops.h"

namespace lockstep::test {
namespace {

ops::AttentionShape shape_of(std::int64_t samples, std::int64_t length, std::int64_t heads, std::int64_t kv_heads,
                             std::int64_t head_size) {
  return {samples, length, length, length, heads, kv_heads, head_size};
}

class AttentionGradient : public testing::TestWithParam<std::tuple<float, double, double>> {};

INSTANTIATE_TEST_SUITE_P(DropoutScaleAndCap, AttentionGradient,
                         testing::Values(std::tuple{0.0F, 0.0, 0.0}, std::tuple{0.3F, 0.0, 0.0}, std::tuple{0.0F, 1.5, 0.0},
                                         std::tuple{0.0F, 0.0, 0.8}, std::tuple{0.3F, 1.5, 0.8}));

TEST_P(AttentionGradient, OfTheReferenceAgainstFiniteDifferences) {
  const auto ops = ops::make_reference_ops();
  const auto [dropout, scale, softcap] = GetParam();
  ops::DropoutSite site{.p = dropout, .key = {1, 2}, .first_sample = 3, .index_stride = 5};
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    ops::AttentionShape shape = shape_of(2, 5, 4, kv_heads, 3);
    shape.scale = scale;
    shape.softcap = softcap;
    HostTensor q = HostTensor::random({10, 12}, 1), k = HostTensor::random({10, 3 * kv_heads}, 2);
    HostTensor v = HostTensor::random({10, 3 * kv_heads}, 3);
    const HostTensor d_o = HostTensor::random({10, 12}, 4);
    HostTensor o({10, 12}), lse({8, 5}), delta({8, 5}), dq = q, dk = k, dv = v;
    const auto loss = [&] {
      ops->attention().forward({o, lse, q, k, v, shape, site});
      return inner(o, d_o);
    };
    loss();
    ops->attention().backward({dq, dk, dv, delta, d_o, o, lse, q, k, v, shape, site});
    expect_gradient(dq, q, loss, 1e-2F, 1e-4);
    expect_gradient(dk, k, loss, 1e-2F, 1e-4);
    expect_gradient(dv, v, loss, 1e-2F, 1e-4);
  }
}

TEST(AttentionReference, OneKeyIsItsValue) {
  const HostTensor q = HostTensor::random({1, 6}, 1), k = HostTensor::random({1, 6}, 2), v = HostTensor::random({1, 6}, 3);
  HostTensor o({1, 6});
  ops::make_reference_ops()->attention().forward({o, {}, q, k, v, shape_of(1, 1, 2, 2, 3)});
  EXPECT_EQ(different_bits(o.values(), v.values()), 0U);
}

TEST(AttentionReference, ACacheSeesWhatTheWholeCallSees) {
  const auto ops = ops::make_reference_ops();
  const HostTensor q = HostTensor::random({7, 6}, 1), k = HostTensor::random({7, 6}, 2), v = HostTensor::random({7, 6}, 3);
  HostTensor whole({7, 6}), last({2, 6});
  ops->attention().forward({whole, {}, q, k, v, shape_of(1, 7, 2, 2, 3)});
  ops->attention().forward({last, {}, q.tensor().slice_rows(5, 2), k, v, {1, 2, 7, 7, 2, 2, 3}});
  EXPECT_EQ(std::vector<float>(whole.values().begin() + 30, whole.values().end()), last.values());
}

TEST(AttentionReference, BrokenRules) {
  const auto ops = ops::make_reference_ops();
  ops::Attention& attention = ops->attention();
  const HostTensor x({10, 12}), half({10, 6}), lse({40}), shorter({39});
  const ops::AttentionShape good = shape_of(2, 5, 4, 4, 3);
  const auto forward = [&](ops::AttentionShape shape, const ops::DropoutSite& site = {}) {
    attention.forward({x, lse, x, x, x, shape, site});
  };
  EXPECT_THROW(forward(shape_of(2, 5, 4, 3, 3)), BrokenRule);
  EXPECT_THROW(forward(shape_of(2, 5, 0, 4, 3)), BrokenRule);
  EXPECT_THROW(forward(shape_of(-2, -5, 4, 4, 3)), BrokenRule);
  EXPECT_THROW(forward({2, 5, 4, 5, 4, 4, 3}), BrokenRule);
  EXPECT_THROW(forward({2, 5, 5, 4, 4, 4, 3}), BrokenRule);
  EXPECT_THROW(forward(good, {.p = 0.5F, .index_stride = 4}), BrokenRule);
  ops::AttentionShape part = good;
  part.skipped = 1;
  EXPECT_THROW(forward(part), BrokenRule) << "without a group";
  part.group = 1;
  EXPECT_THROW(forward(part), BrokenRule) << "key/value head 0 is not read";
  part.group = 2;
  EXPECT_THROW(forward(part), BrokenRule) << "the last key/value head is not read";
  part.kv_heads = 2;
  EXPECT_THROW(forward(part), BrokenRule) << "there are more";
  EXPECT_THROW(attention.forward({half, lse, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.forward({x, shorter, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.forward({x, lse, half, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.forward({x, lse, x, half, x, good}), BrokenRule);
  EXPECT_THROW(attention.forward({x, lse, x, x, half, good}), BrokenRule);
  EXPECT_THROW(attention.backward({half, x, x, lse, x, x, lse, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.backward({x, half, x, lse, x, x, lse, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.backward({x, x, half, lse, x, x, lse, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.backward({x, x, x, shorter, x, x, lse, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.backward({x, x, x, lse, half, x, lse, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.backward({x, x, x, lse, x, half, lse, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.backward({x, x, x, lse, x, x, {}, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.backward({x, x, x, lse, x, x, lse, x, x, x, {2, 4, 5, 5, 4, 4, 3}}), BrokenRule);
  const Tensor no_rows = x.tensor().slice_rows(0, 0), nothing = lse.tensor().flat(0, 0);
  EXPECT_THROW(attention.backward({no_rows, x, x, nothing, no_rows, no_rows, nothing, no_rows, x, x, {2, 0, 5, 5, 4, 4, 3}}),
               BrokenRule)
      << "no query sees the keys";
  Tensor elsewhere = x;
  elsewhere.device.kind = DeviceKind::cuda;
  EXPECT_THROW(attention.forward({elsewhere, lse, x, x, x, good}), BrokenRule);
  EXPECT_THROW(attention.backward({elsewhere, x, x, lse, x, x, lse, x, x, x, good}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::test
