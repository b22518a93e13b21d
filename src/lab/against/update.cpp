#include "lab/against/update.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace lockstep::lab::against {
namespace {

bool decays_in_gradient(const Facts& facts, const UpdateWays& ways) {
  return facts.decay_in_gradient != (ways.decay == Decay::other_rule);
}

/// What the moments make of a weight.
class Rule {
 public:
  Rule(const Facts& facts, const UpdateWays& ways, bool decays) : facts_(facts), ways_(ways) {
    const double number = facts.step + ways.correction_shift;
    if (ways.mean_corrected && number > 0) first_ = 1 - std::pow(facts.beta1, number);
    if (ways.square_corrected && number > 0) second_ = 1 - std::pow(facts.beta2, number);
    rate_ = facts.learning_rate * ways.rate_times;
    const bool decoupled = decays && !decays_in_gradient(facts, ways);
    decay_ = decoupled ? facts.weight_decay * (ways.decay == Decay::without_rate ? 1 : rate_) : 0;
  }
  void operator()(double& weight, double mean, double square) const {
    const double inside = square / second_ + (ways_.eps_inside_root ? facts_.eps : 0);
    const double eps = ways_.eps_before_correction ? facts_.eps / std::sqrt(second_) : facts_.eps;
    const double size = std::sqrt(inside) + (ways_.eps_inside_root ? 0 : eps);
    if (ways_.decay != Decay::behind) weight -= decay_ * weight;
    if (ways_.decay == Decay::twice) weight -= decay_ * weight;
    if (size > 0) weight -= rate_ * (mean / first_) / size;
    if (ways_.decay == Decay::behind) weight -= decay_ * weight;
  }

 private:
  const Facts& facts_;
  const UpdateWays& ways_;
  double first_ = 1, second_ = 1, rate_ = 0, decay_ = 0;
};

bool decays(const Before& before, const Facts& facts, const UpdateWays& ways) {
  return ways.decay == Decay::all || (ways.decay != Decay::none && (before.decays || facts.decay == "all"));
}

}  // namespace

std::string missing_facts(const Facts& facts) {
  std::vector<std::string_view> missing;
  if (facts.learning_rate < 0) missing.emplace_back("learning_rate");
  if (facts.beta1 < 0) missing.emplace_back("betas");
  if (facts.eps < 0) missing.emplace_back("eps");
  if (facts.weight_decay < 0) missing.emplace_back("weight_decay");
  if (facts.step == 0) missing.emplace_back("step");
  return fmt::format("{}", fmt::join(missing, ", "));
}

After update(const Before& before, const Facts& facts, const UpdateWays& ways, double factor) {
  After after{before.weights, before.exp_avg, before.exp_avg_sq};
  const bool decay = decays(before, facts, ways);
  const Rule apply(facts, ways, decay);
  for (int time = 0; time < ways.times; ++time) {
    for (std::size_t i = 0; i < after.weights.size(); ++i) {
      double gradient = before.gradient[i] * factor;
      if (decay && decays_in_gradient(facts, ways)) gradient += facts.weight_decay * after.weights[i];
      after.exp_avg[i] = facts.beta1 * after.exp_avg[i] + (1 - facts.beta1) * gradient;
      after.exp_avg_sq[i] = facts.beta2 * after.exp_avg_sq[i] + (1 - facts.beta2) * gradient * gradient;
      apply(after.weights[i], after.exp_avg[i], after.exp_avg_sq[i]);
    }
  }
  return after;
}

double clip_factor(double norm, const Facts& facts) { return facts.clip > 0 ? std::min(1.0, facts.clip / (norm + 1e-6)) : 1; }

}  // namespace lockstep::lab::against
