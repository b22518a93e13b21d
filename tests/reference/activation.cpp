#include "lab/against/activate.h"
#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

using lab::against::activate;

class ActivationReference final : public Activations {
 public:
  using Activations::Activations;

 private:
  void do_forward(const Tensor& y, const Tensor& x, Activation f) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (std::int64_t j = 0; j < x.columns(); ++j) put(y, i, j, activate(get(x, i, j), f).value);
    }
  }

  void do_backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (std::int64_t j = 0; j < x.columns(); ++j) {
        const auto [value, slope] = activate(get(x, i, j), f);
        put(dx, i, j, get(dy, i, j) * slope);
        if (y) put(y, i, j, value);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Activations> make_activation(OpObserver* observer) { return std::make_unique<ActivationReference>(observer); }

}  // namespace lockstep::ops::reference
