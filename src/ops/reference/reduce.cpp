#include <algorithm>
#include <cmath>

#include "ops/reference/access.h"
#include "ops/reference/families.h"

namespace lockstep::ops::reference {
namespace {

class ReduceReference final : public Reduce {
 public:
  using Reduce::Reduce;

 private:
  void do_sum_of_squares(const Tensor& sum, const Tensor& x) override {
    double& total = double_at(sum, 0) = 0;
    for (std::int64_t i = 0; i < x.elements(); ++i) total += static_cast<double>(get(x, i)) * get(x, i);
  }

  void do_max_abs(const Tensor& largest, const Tensor& x) override {
    double& result = double_at(largest, 0) = 0;
    for (std::int64_t i = 0; i < x.elements() && !std::isnan(result); ++i) {
      const double size = std::fabs(get(x, i));
      result = std::isnan(size) ? size : std::max(result, size);
    }
  }
};

}  // namespace

std::unique_ptr<Reduce> make_reduce(OpObserver* observer) { return std::make_unique<ReduceReference>(observer); }

}  // namespace lockstep::ops::reference
