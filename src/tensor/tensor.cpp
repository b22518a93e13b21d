#include "tensor/tensor.h"

#include <type_traits>

#include "base/checked.h"

namespace lockstep {
namespace {

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, std::uint16_t>) return DType::u16;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
}

/// `tensor` as the matrix [rows, columns] that starts `offset` elements into it.
Tensor part(const Tensor& tensor, std::int64_t offset, Shape shape, std::int64_t row_stride) {
  Tensor result = tensor;
  if (tensor.data != nullptr) result.data += multiply(offset, static_cast<std::int64_t>(size_of(tensor.dtype)));
  result.shape = shape;
  result.row_stride = row_stride;
  return result;
}

bool inside(std::int64_t first, std::int64_t count, std::int64_t extent) {
  return first >= 0 && count >= 0 && first <= extent && count <= extent - first;
}

}  // namespace

Tensor Tensor::slice_rows(std::int64_t first, std::int64_t count) const {
  ensure(inside(first, count, rows()), "a slice of rows lies inside the tensor");
  const bool whole = first % tile_rows == 0 && (count % tile_rows == 0 || first + count == rows());
  ensure(order == Order::rows || whole, "rows that lie in tiles are taken in whole tiles");
  return part(*this, multiply(first, stride()), {count, columns()}, row_stride);
}

Tensor Tensor::slice_columns(std::int64_t first, std::int64_t count) const {
  ensure(inside(first, count, columns()), "a slice of columns lies inside the tensor");
  ensure(order == Order::rows, "rows that lie in tiles have no columns to take");
  return part(*this, first, {rows(), count}, stride());
}

Tensor Tensor::flat(std::int64_t first, std::int64_t count) const {
  ensure(dense(), "only a dense tensor has flat ranges");
  ensure(inside(first, count, elements()), "a flat range lies inside the tensor");
  return part(*this, first, {count}, 0);
}

Tensor Tensor::reshape(Shape to) const {
  ensure(dense(), "only a dense tensor is reshaped");
  ensure(to.elements() == elements(), "a reshaped tensor keeps its number of elements");
  return part(*this, 0, to, 0);
}

template <class T>
std::span<T> elements(const Tensor& tensor) {
  using Element = std::remove_const_t<T>;
  ensure(tensor.device.is_host(), "the tensor lies in host memory");
  ensure(tensor.dense(), "the tensor is dense");
  if constexpr (std::is_same_v<Element, std::byte>) {
    return {tensor.data, tensor.bytes()};
  } else {
    ensure(tensor.dtype == dtype_of<Element>(), "the elements have the tensor's type");
    return {reinterpret_cast<T*>(tensor.data), static_cast<std::size_t>(tensor.elements())};
  }
}

template <class T>
Tensor view(std::span<T> memory, Shape shape) {
  ensure(static_cast<std::int64_t>(memory.size()) == shape.elements(), "a view's shape has as many elements as its memory");
  return {.data = reinterpret_cast<std::byte*>(memory.data()), .shape = shape, .dtype = dtype_of<T>(), .device = {}};
}

template std::span<std::byte> elements<std::byte>(const Tensor&);
template std::span<const std::byte> elements<const std::byte>(const Tensor&);
template std::span<float> elements<float>(const Tensor&);
template std::span<const float> elements<const float>(const Tensor&);
template std::span<std::int32_t> elements<std::int32_t>(const Tensor&);
template std::span<const std::int32_t> elements<const std::int32_t>(const Tensor&);
template std::span<std::int64_t> elements<std::int64_t>(const Tensor&);
template std::span<double> elements<double>(const Tensor&);
template std::span<const double> elements<const double>(const Tensor&);
template std::span<const std::int64_t> elements<const std::int64_t>(const Tensor&);
template std::span<std::uint16_t> elements<std::uint16_t>(const Tensor&);
template std::span<const std::uint16_t> elements<const std::uint16_t>(const Tensor&);
template std::span<std::uint8_t> elements<std::uint8_t>(const Tensor&);
template std::span<const std::uint8_t> elements<const std::uint8_t>(const Tensor&);
template Tensor view<float>(std::span<float>, Shape);
template Tensor view<std::int32_t>(std::span<std::int32_t>, Shape);
template Tensor view<std::int64_t>(std::span<std::int64_t>, Shape);
template Tensor view<double>(std::span<double>, Shape);
template Tensor view<std::uint16_t>(std::span<std::uint16_t>, Shape);
template Tensor view<std::uint8_t>(std::span<std::uint8_t>, Shape);

}  // namespace lockstep
