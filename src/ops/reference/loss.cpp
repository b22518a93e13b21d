#include <algorithm>
#include <cmath>

#include "ops/reference/access.h"
#include "ops/reference/families.h"

namespace lockstep::ops::reference {
namespace {

class LossReference final : public Loss {
 public:
  using Loss::Loss;

 private:
  void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                  const Tensor& loss_sum) override {
    for (std::int64_t i = 0; i < logits.rows(); ++i) {
      const std::int64_t target = id_at(targets, i);
      double largest = at(logits, i, 0), sum = 0;
      for (std::int64_t j = 0; j < vocabulary; ++j) largest = std::max<double>(largest, at(logits, i, j));
      for (std::int64_t j = 0; j < vocabulary; ++j) sum += std::exp(at(logits, i, j) - largest);
      const double lse = largest + std::log(sum);
      if (target >= 0) double_at(loss_sum, 0) += lse - at(logits, i, target);
      if (!scale) continue;
      for (std::int64_t j = 0; j < logits.columns(); ++j) {
        double gradient = 0;
        if (target >= 0 && j < vocabulary) gradient = (std::exp(at(logits, i, j) - lse) - (j == target ? 1 : 0)) * at(scale, 0);
        at(logits, i, j) = static_cast<float>(gradient);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Loss> make_loss(OpObserver* observer) { return std::make_unique<LossReference>(observer); }

}  // namespace lockstep::ops::reference
