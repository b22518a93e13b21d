#include "ops/reference/access.h"
#include "ops/reference/families.h"
#include "ops/reference/math.h"

namespace lockstep::ops::reference {
namespace {

class DropoutReference final : public Dropout {
 public:
  using Dropout::Dropout;

 private:
  void do_forward(const Tensor& y, const Tensor& x, const DropoutSite& site, const Tensor& residual) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (std::int64_t j = 0; j < x.columns(); ++j) {
        const double kept = static_cast<double>(get(x, i, j)) * factor(site, i, j);
        put(y, i, j, kept + (residual ? get(residual, i, j) : 0));
      }
    }
  }

  void do_backward(const Tensor& dx, const Tensor& dy, const DropoutSite& site) override { do_forward(dx, dy, site, {}); }

  static float factor(const DropoutSite& site, std::int64_t row, std::int64_t column) {
    if (site.p == 0) return 1;
    const std::int64_t rows = site.positions.count();
    return dropout_factor(site, row / rows, site.positions.at(row % rows), column);
  }
};

}  // namespace

std::unique_ptr<Dropout> make_dropout(OpObserver* observer) { return std::make_unique<DropoutReference>(observer); }

}  // namespace lockstep::ops::reference
