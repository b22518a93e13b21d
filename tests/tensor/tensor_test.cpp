#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace lockstep {
namespace {

TEST(DTypes, NamesAreThoseOfSafetensorsAndComeBack) {
  for (const DType type : {DType::f32, DType::bf16, DType::i32, DType::i64, DType::u16, DType::u8, DType::f64}) {
    EXPECT_EQ(dtype_from_name(name_of(type)), type);
  }
  EXPECT_EQ(name_of(DType::bf16), "BF16");
  EXPECT_EQ(size_of(DType::f32), 4U);
  EXPECT_EQ(size_of(DType::bf16), 2U);
  EXPECT_EQ(size_of(DType::i64), 8U);
  EXPECT_EQ(size_of(DType::u8), 1U);
  EXPECT_THROW(dtype_from_name("F8_E4M3"), UserError);
}

TEST(Shapes, ProductsAndText) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.last(), 4);
  EXPECT_EQ(shape.text(), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(Shape{}.rows(), 1);
  EXPECT_EQ(Shape{}.text(), "[]");
  EXPECT_EQ(Shape{7}.rows(), 1);
  EXPECT_EQ((Shape{0, 5}).elements(), 0);
  EXPECT_NE((Shape{3, 4}), (Shape{4, 3}));
}

TEST(Shapes, RefuseWhatDoesNotFit) {
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), BrokenRule);
  EXPECT_THROW((Shape{2, -1}), BrokenRule);
  const Shape huge{1LL << 40, 1LL << 40};
  EXPECT_THROW(huge.elements(), BrokenRule);
}

class Views : public ::testing::Test {
 protected:
  Views() : memory_(24) { std::iota(memory_.begin(), memory_.end(), 0.0F); }
  std::vector<float> memory_;
};

TEST_F(Views, RowsColumnsAndRangesPointIntoTheSameMemory) {
  const Tensor tensor = view(std::span(memory_), {2, 3, 4});
  EXPECT_EQ(tensor.dtype, DType::f32);
  EXPECT_EQ(tensor.bytes(), 96U);
  const Tensor rows = tensor.slice_rows(2, 3);
  EXPECT_EQ(rows.shape, (Shape{3, 4}));
  EXPECT_TRUE(rows.dense());
  EXPECT_EQ(elements<float>(rows).front(), 8);
  const Tensor columns = tensor.slice_columns(1, 2);
  EXPECT_EQ(columns.shape, (Shape{6, 2}));
  EXPECT_FALSE(columns.dense());
  EXPECT_EQ(columns.stride(), 4);
  const Tensor inner = columns.slice_rows(5, 1).slice_columns(1, 1);
  EXPECT_EQ(elements<float>(inner).front(), 22);
  EXPECT_EQ(elements<float>(tensor.flat(5, 7)).back(), 11);
  EXPECT_EQ(tensor.reshape({4, 6}).shape, (Shape{4, 6}));
  EXPECT_EQ(elements<float>(tensor.reshape({24}))[23], 23);
}

TEST_F(Views, RefuseWhatLiesOutside) {
  const Tensor tensor = view(std::span(memory_), {6, 4});
  EXPECT_THROW(tensor.slice_rows(4, 3), BrokenRule);
  EXPECT_THROW(tensor.slice_rows(-1, 1), BrokenRule);
  EXPECT_THROW(tensor.slice_columns(3, 2), BrokenRule);
  EXPECT_THROW(tensor.flat(20, 5), BrokenRule);
  EXPECT_THROW(tensor.reshape({5, 5}), BrokenRule);
  const Tensor strided = tensor.slice_columns(0, 2);
  EXPECT_THROW(strided.flat(0, 2), BrokenRule);
  EXPECT_THROW(strided.reshape({12}), BrokenRule);
  EXPECT_THROW(view(std::span(memory_), {5, 5}), BrokenRule);
}

TEST_F(Views, ElementsHaveTheTensorsTypeAndPlace) {
  Tensor tensor = view(std::span(memory_), {6, 4});
  EXPECT_THROW(elements<std::int32_t>(tensor), BrokenRule);
  EXPECT_THROW(elements<float>(tensor.slice_columns(0, 2)), BrokenRule);
  EXPECT_EQ(elements<std::byte>(tensor).size(), 96U);
  EXPECT_EQ(elements<const float>(tensor)[1], 1);
  tensor.device.kind = DeviceKind::cuda;
  EXPECT_THROW(elements<float>(tensor), BrokenRule);
  std::vector<std::uint16_t> tokens{1, 2, 3};
  Tensor as_tokens = view(std::span(tokens), {3});
  EXPECT_EQ(elements<std::uint16_t>(as_tokens)[2], 3);
  as_tokens.dtype = DType::bf16;
  EXPECT_THROW(elements<std::uint16_t>(as_tokens), BrokenRule);
}

TEST(TensorOfNothing, IsFalseAndItsSlicesStayNull) {
  Tensor tensor;
  tensor.shape = {4, 4};
  EXPECT_FALSE(tensor);
  EXPECT_FALSE(tensor.slice_rows(2, 2));
}

// What lies in tiles is for products: no other view of it is right.
TEST_F(Views, OfTilesHaveWholeTilesOfRowsAlone) {
  std::vector<float> memory(20 * 3);
  Tensor tensor = view(std::span(memory), {20, 3});
  tensor.order = Order::tiles;
  EXPECT_FALSE(tensor.dense());
  EXPECT_EQ(tensor.slice_rows(8, 12).order, Order::tiles);
  EXPECT_EQ(tensor.slice_rows(8, 8).data, tensor.data + 8 * 3 * sizeof(float));
  EXPECT_EQ(tensor.slice_rows(16, 4).rows(), 4);
  EXPECT_THROW(tensor.slice_rows(0, 4), BrokenRule);
  EXPECT_THROW(tensor.slice_rows(4, 8), BrokenRule);
  EXPECT_THROW(tensor.slice_columns(0, 3), BrokenRule);
  EXPECT_THROW(tensor.flat(0, 8), BrokenRule);
  EXPECT_THROW(tensor.reshape({60}), BrokenRule);
  EXPECT_THROW(elements<float>(tensor), BrokenRule);
}

}  // namespace
}  // namespace lockstep
