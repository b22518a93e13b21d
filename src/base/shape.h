#pragma once

// Up to four extents, row-major.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace lockstep {

class Shape {
 public:
  static constexpr int max_rank = 4;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);

  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return extents_[static_cast<std::size_t>(dim)]; }
  /// Product of all extents; 1 for rank 0. Throws BrokenRule on overflow.
  std::int64_t elements() const;
  /// Product of all extents but the last: the rows of the matrix a kernel sees.
  std::int64_t rows() const;
  std::int64_t last() const { return rank_ == 0 ? 1 : (*this)[rank_ - 1]; }
  std::string text() const;  ///< "[3, 4]"
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

}  // namespace lockstep
