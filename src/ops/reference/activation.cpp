#include "ops/reference/access.h"
#include "ops/reference/families.h"
#include "ops/reference/math.h"

namespace lockstep::ops::reference {
namespace {

class ActivationReference final : public Activations {
 public:
  using Activations::Activations;

 private:
  void do_forward(const Tensor& y, const Tensor& x, Activation f) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (std::int64_t j = 0; j < x.columns(); ++j) put(y, i, j, activate(get(x, i, j), f));
    }
  }

  void do_backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (std::int64_t j = 0; j < x.columns(); ++j) {
        const double before = get(x, i, j);
        put(dx, i, j, get(dy, i, j) * slope(before, f));
        if (y) put(y, i, j, activate(before, f));
      }
    }
  }
};

}  // namespace

std::unique_ptr<Activations> make_activation(OpObserver* observer) { return std::make_unique<ActivationReference>(observer); }

}  // namespace lockstep::ops::reference
