#include "base/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"

namespace lockstep {

Shape::Shape(std::initializer_list<std::int64_t> extents) {
  ensure(extents.size() <= max_rank, "a shape has at most four extents");
  ensure(std::all_of(extents.begin(), extents.end(), [](std::int64_t e) { return e >= 0; }), "extents are not negative");
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<int>(extents.size());
}

std::int64_t Shape::elements() const { return multiply(rows(), last()); }

std::int64_t Shape::rows() const {
  std::int64_t product = 1;
  for (int dim = 0; dim < rank_ - 1; ++dim) product = multiply(product, (*this)[dim]);
  return product;
}

std::string Shape::text() const {
  std::string text = "[";
  for (int dim = 0; dim < rank_; ++dim) text += fmt::format("{}{}", dim == 0 ? "" : ", ", (*this)[dim]);
  return text + "]";
}

}  // namespace lockstep
