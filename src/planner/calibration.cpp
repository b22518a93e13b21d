#include "planner/calibration.h"

#include <cmath>

#include "planner/search.h"

namespace lockstep::planner {

Machine scaled(Machine machine, const RateFactors& factors) {
  if (factors.update != 1) machine.update_rate = machine.in_place_rate() * factors.update;
  for (double* rate : {&machine.product_share, &machine.f32_share, &machine.memory_rate, &machine.update_rate})
    *rate *= factors.computing;
  machine.link_share *= factors.links;
  for (double* latency : {&machine.inside_latency, &machine.between_latency}) *latency /= factors.links;
  return machine;
}

Term largest_term(const Work& work, const Candidate& candidate) {
  const StepTime time = simulated_time(work, candidate);
  const double waiting = time.tensor_parallel + time.messages + time.gather + time.replicas;
  return waiting > time.total() / 2 ? Term::links : Term::computing;
}

std::optional<RateFactors> fitted_factors(const Work& work, const Candidate& candidate, double seconds, Term term,
                                          const RateFactors& from) {
  const auto at = [&](double exponent) {
    RateFactors factors = from;
    const double factor = std::pow(10.0, exponent);
    if (term != Term::links) factors.computing *= factor;
    if (term != Term::computing) factors.links *= factor;
    return factors;
  };
  const auto too_slow = [&](double exponent) {
    Work tried = work;
    tried.machine = scaled(work.machine, at(exponent));
    return simulated_time(tried, candidate).total() > seconds;
  };
  double slow = -3, fast = 3;
  if (!too_slow(slow) || too_slow(fast)) return std::nullopt;
  constexpr int halvings = 40;
  for (int i = 0; i < halvings; ++i) (too_slow((slow + fast) / 2) ? slow : fast) = (slow + fast) / 2;
  return at((slow + fast) / 2);
}

}  // namespace lockstep::planner
