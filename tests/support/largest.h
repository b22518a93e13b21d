#pragma once

// Comparisons that NaN does not pass, on whichever side it stands.

#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

namespace lockstep::support {

/// The largest of the distances that it was given (0: none). A NaN makes it infinite for good.
class Largest {
 public:
  /// Takes a distance and returns whether it is the largest by now.
  bool take(double distance) {
    if (distance <= value_) return false;
    value_ = std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
    return true;
  }
  double value() const { return value_; }

 private:
  double value_ = 0;
};

/// The largest |a[i] - b[i]|. Infinite where one of the two is NaN, or where a and b differ in length.
template <class A, class B>
double largest_difference(const A& a, const B& b) {
  if (std::size(a) != std::size(b)) return std::numeric_limits<double>::infinity();
  Largest largest;
  for (std::size_t i = 0; i < std::size(a); ++i) largest.take(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest.value();
}

}  // namespace lockstep::support
