#pragma once

// A view of elements somewhere in memory: it owns nothing and is copied freely. Row-major and dense, but for the rows of
// a matrix, which may be `row_stride` elements apart (a column slice of a wider matrix).

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"
#include "device/device.h"

namespace lockstep {

/// How the rows of a matrix lie in its memory.
enum class Order : std::uint8_t {
  rows,   ///< one after the other, as all but kernels expect
  tiles,  ///< eight at a time in an order of the kernels that packed them (ops::Linear::prepack); only products read it
};

struct Tensor {
  std::byte* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  Device device;
  std::int64_t row_stride = 0;  ///< elements between rows; 0 means dense: shape.last()
  Order order = Order::rows;

  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  std::int64_t rows() const { return shape.rows(); }
  std::int64_t columns() const { return shape.last(); }
  std::int64_t stride() const { return row_stride != 0 ? row_stride : columns(); }
  bool dense() const { return order == Order::rows && (row_stride == 0 || row_stride == columns() || rows() <= 1); }
  explicit operator bool() const { return data != nullptr; }

  /// Rows [first, first + count) of the matrix that the tensor is: [count, columns]. Rows that lie in tiles are taken in whole
  /// tiles. Then `first` is a multiple of tile_rows, and so is `count`, unless the slice ends with the matrix.
  Tensor slice_rows(std::int64_t first, std::int64_t count) const;
  /// Columns [first, first + count) of the matrix: [rows, count], strided.
  Tensor slice_columns(std::int64_t first, std::int64_t count) const;
  /// Elements [first, first + count) of a dense tensor: [count].
  Tensor flat(std::int64_t first, std::int64_t count) const;
  /// The same elements in another shape (dense tensors only).
  Tensor reshape(Shape to) const;

  static constexpr std::int64_t tile_rows = 8;
};

/// The elements of a dense host tensor; throws BrokenRule when T is not its type. T: float, double, int32_t, int64_t, uint16_t
/// (not for bf16) or uint8_t, const or not; std::byte gives the bytes of any type.
template <class T>
std::span<T> elements(const Tensor& tensor);

/// A view of dense host memory; throws BrokenRule when the shape has another number of elements. T as above, not const.
template <class T>
Tensor view(std::span<T> memory, Shape shape);

}  // namespace lockstep
