#pragma once

// Fits a machine's rates so that the planner agrees with a step that was measured on it.

#include <optional>

#include "planner/step_time.h"

namespace lockstep::planner {

/// Factors for a machine's rates.
struct RateFactors {
  double computing = 1;  ///< of products, attention, and passes over memory, the update's too
  double update = 1;     ///< of the update, times `computing`
  double links = 1;      ///< of links between devices; their latency is divided by it
};
Machine scaled(Machine machine, const RateFactors& factors);

/// A part of a step that is fitted.
enum class Term { computing, links, all };

/// What most of the layout's step is: computing, or waiting for other ranks.
Term largest_term(const Work& work, const Candidate& candidate);

/// `from`, with the term's factor such that the step takes `seconds`. None where no factor from a thousandth to a thousand gives
/// that.
std::optional<RateFactors> fitted_factors(const Work& work, const Candidate& candidate, double seconds, Term term,
                                          const RateFactors& from = {});

}  // namespace lockstep::planner
