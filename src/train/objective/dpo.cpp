// Direct preference optimisation: Rafailov et al. 2023, equation 7. With label smoothing it is conservative DPO (Mitchell 2023).

#include <cmath>

#include "base/math/elementary.h"
#include "train/objective/objective.h"

namespace lockstep::train {
namespace {

// ln of 1 / (1 + e^-x).
double log_sigmoid(double x) { return (x < 0 ? x : 0) - logarithm(1 + exponential(-std::abs(x))); }
double sigmoid(double x) {
  const double small = exponential(-std::abs(x));
  return (x < 0 ? small : 1) / (1 + small);
}

class Dpo final : public SampleLoss {
 public:
  Dpo(double beta, double smoothing) : beta_(beta), smoothing_(smoothing) {}

  int together() const override { return 2; }  // the chosen sample, then the rejected one

  // The names are trl's.
  std::span<const std::string_view> figures() const override {
    static constexpr std::array<std::string_view, 6> names{"rewards/accuracies", "rewards/margins", "rewards/chosen",
                                                           "rewards/rejected",   "logps/chosen",    "logps/rejected"};
    return names;
  }

  double judge(std::span<const double> own, std::span<const double> reference, std::span<double> slopes,
               std::span<double> figures) const override {
    const double chosen = beta_ * (own[0] - reference[0]), rejected = beta_ * (own[1] - reference[1]);
    const double margin = chosen - rejected;
    slopes[0] = beta_ * (smoothing_ * sigmoid(margin) - (1 - smoothing_) * sigmoid(-margin));
    slopes[1] = -slopes[0];
    const std::array<double, 6> told{margin > 0 ? 1.0 : 0.0, margin, chosen, rejected, own[0], own[1]};
    for (std::size_t i = 0; i < told.size(); ++i) figures[i] = told[i];
    return -(1 - smoothing_) * log_sigmoid(margin) - smoothing_ * log_sigmoid(-margin);
  }

 private:
  double beta_, smoothing_;
};

}  // namespace

std::unique_ptr<SampleLoss> make_dpo(const ObjectiveSettings& settings) {
  return std::make_unique<Dpo>(settings.beta, settings.label_smoothing);
}

}  // namespace lockstep::train
