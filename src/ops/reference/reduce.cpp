#include <cmath>

#include "ops/reference/access.h"
#include "ops/reference/families.h"

namespace lockstep::ops::reference {
namespace {

class ReduceReference final : public Reduce {
  double do_sum_of_squares(const Tensor& x) override {
    double sum = 0;
    for (std::int64_t i = 0; i < x.elements(); ++i) sum += static_cast<double>(get(x, i)) * get(x, i);
    return sum;
  }

  double do_max_abs(const Tensor& x) override {
    double largest = 0;
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      if (std::isnan(get(x, i))) return get(x, i);
      largest = std::fmax(largest, std::fabs(get(x, i)));
    }
    return largest;
  }
};

}  // namespace

std::unique_ptr<Reduce> make_reduce() { return std::make_unique<ReduceReference>(); }

}  // namespace lockstep::ops::reference
