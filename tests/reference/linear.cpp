#include "lab/against/activate.h"
#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

using lab::against::activate;

class LinearReference final : public Linear {
 public:
  using Linear::Linear;

 private:
  void do_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (std::int64_t j = 0; j < w.rows(); ++j) {
        double sum = epilogue.sums ? get(epilogue.sums, i, j) : 0;
        for (std::int64_t k = 0; k < x.columns(); ++k) sum += static_cast<double>(get(x, i, k)) * get(w, j, k);
        if (epilogue.bias) sum += get(epilogue.bias, j);
        if (epilogue.pre_activation) put(epilogue.pre_activation, i, j, sum);
        const bool goes_on = epilogue.pre_activation || epilogue.gate || epilogue.activation != Activation::none;
        if (y.dtype == DType::bf16 && goes_on) sum = to_float(to_bfloat16(static_cast<float>(sum)));
        const double activated = activate(epilogue.gate ? get(epilogue.gate, i, j) : sum, epilogue.activation).value;
        sum = epilogue.gate ? activated * sum : activated;
        if (epilogue.residual) sum += get(epilogue.residual, i, j);
        put(y, i, j, sum);
      }
    }
  }

  void do_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue) override {
    for (std::int64_t i = 0; i < dy.rows(); ++i) {
      for (std::int64_t k = 0; k < w.columns(); ++k) {
        double sum = epilogue.sums ? get(epilogue.sums, i, k) : 0;
        for (std::int64_t j = 0; j < w.rows(); ++j) sum += static_cast<double>(get(dy, i, j)) * get(w, j, k);
        if (epilogue.gate) {
          const double gate = get(epilogue.gate, i, k), up = get(epilogue.pre_activation, i, k);
          const auto [value, slope] = activate(gate, epilogue.activation);
          put(epilogue.d_gate, i, k, sum * up * slope);
          sum *= value;
          if (epilogue.activated) put(epilogue.activated, i, k, value * up);
        } else if (epilogue.pre_activation) {
          const auto [value, slope] = activate(get(epilogue.pre_activation, i, k), epilogue.activation);
          sum *= slope;
          if (epilogue.activated) put(epilogue.activated, i, k, value);
        }
        put(dx, i, k, sum);
      }
    }
  }

  void do_backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate,
                          const SumGrid* /*grid*/) override {
    for (std::int64_t j = 0; j < dy.columns(); ++j) {
      for (std::int64_t k = 0; k < x.columns(); ++k) {
        double sum = accumulate ? at(dw, j, k) : 0;
        for (std::int64_t i = 0; i < x.rows(); ++i) sum += static_cast<double>(get(dy, i, j)) * get(x, i, k);
        at(dw, j, k) = static_cast<float>(sum);
      }
      if (!db) continue;
      double sum = accumulate ? at(db, j) : 0;
      for (std::int64_t i = 0; i < dy.rows(); ++i) sum += get(dy, i, j);
      at(db, j) = static_cast<float>(sum);
    }
  }
};

}  // namespace

std::unique_ptr<Linear> make_linear(OpObserver* observer) { return std::make_unique<LinearReference>(observer); }

}  // namespace lockstep::ops::reference
