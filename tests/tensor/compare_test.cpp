#include "tensor/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

Difference difference(std::vector<float> a, std::vector<float> b) {
  const Shape shape{static_cast<std::int64_t>(a.size())};
  return compare(view(std::span(a), shape), view(std::span(b), shape));
}

TEST(Compare, EqualTensorsAreBitEqual) {
  const Difference result = difference({1, -2, nan}, {1, -2, nan});
  EXPECT_TRUE(result.equal_bits());
  EXPECT_EQ(result.text(), "bit-equal");
  EXPECT_EQ(result.max_abs, 0);
}

TEST(Compare, FindsTheLargestDistancesAndTheFirstMismatch) {
  const float next = std::nextafter(4.0F, 5.0F);
  const Difference result = difference({1, next, 100, 0}, {1, 4, 96, 0});
  ASSERT_TRUE(result.first);
  EXPECT_EQ(*result.first, 1);
  EXPECT_EQ(result.a, next);
  EXPECT_EQ(result.b, 4);
  EXPECT_EQ(result.max_abs, 4);
  EXPECT_EQ(result.max_relative, 4.0 / 96);
  EXPECT_EQ(result.max_ulp, 1U << 19);  // 96..100 in steps of 2^-17
  EXPECT_NE(result.text().find("first at element 1"), std::string::npos) << result.text();
}

TEST(Compare, UlpsCrossZero) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(difference({tiny}, {-tiny}).max_ulp, 2U);
  const Difference zeros = difference({0.0F}, {-0.0F});
  EXPECT_EQ(zeros.max_ulp, 0U);
  EXPECT_EQ(zeros.max_abs, 0);
  EXPECT_FALSE(zeros.equal_bits());
}

TEST(Compare, NanAndInfinityAreInfinitelyFar) {
  EXPECT_TRUE(std::isinf(difference({nan}, {1}).max_abs));
  EXPECT_EQ(difference({1}, {nan}).max_ulp, std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(std::isinf(difference({infinity}, {1}).max_relative));
  EXPECT_TRUE(std::isinf(difference({infinity}, {-infinity}).max_abs));
  EXPECT_TRUE(std::isinf(difference({1}, {0}).max_relative));
}

TEST(Compare, OtherTypes) {
  std::vector<std::uint16_t> a{0x3F80, 0x4000}, b{0x3F80, 0x4001};
  Tensor x = view(std::span(a), {2}), y = view(std::span(b), {2});
  EXPECT_EQ(compare(x, y).max_abs, 1);
  x.dtype = y.dtype = DType::bf16;  // 2 and the next bf16 above it
  EXPECT_EQ(compare(x, y).max_abs, 0x1p-6);
  EXPECT_EQ(compare(x, y).max_ulp, 1U);
  std::vector<std::int64_t> least{std::numeric_limits<std::int64_t>::min()}, most{std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(compare(view(std::span(least), {1}), view(std::span(most), {1})).max_ulp, std::numeric_limits<std::uint64_t>::max());
  std::vector<std::int32_t> i{5}, j{-5};
  EXPECT_EQ(compare(view(std::span(i), {1}), view(std::span(j), {1})).max_abs, 10);
  std::vector<std::uint8_t> u{200}, v{100};
  EXPECT_EQ(compare(view(std::span(u), {1}), view(std::span(v), {1})).max_relative, 1);
}

TEST(Compare, StridedRowsSkipWhatLiesBetween) {
  std::vector<float> a{1, 2, 9, 3, 4, 9}, b{1, 2, 8, 3, 5, 8};
  const Tensor x = view(std::span(a), {2, 3}).slice_columns(0, 2), y = view(std::span(b), {2, 3}).slice_columns(0, 2);
  EXPECT_EQ(compare(x, y).first, 3);
  EXPECT_FALSE(equal_bits(x, y));
  EXPECT_TRUE(equal_bits(x.slice_rows(0, 1), y.slice_rows(0, 1)));
}

TEST(Compare, RefusesDifferentShapesTypesAndDevices) {
  std::vector<float> a(6);
  std::vector<std::int32_t> i(6);
  const Tensor x = view(std::span(a), {2, 3});
  EXPECT_THROW(compare(x, x.reshape({3, 2})), BrokenRule);
  EXPECT_THROW(equal_bits(x, view(std::span(i), {2, 3})), BrokenRule);
  Tensor far = x;
  far.device.kind = DeviceKind::cuda;
  EXPECT_THROW(compare(x, far), BrokenRule);
}

}  // namespace
}  // namespace lockstep
