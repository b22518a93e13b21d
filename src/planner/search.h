#pragma once

// The fastest layouts that fit, and why others lose.

#include <optional>
#include <string>
#include <vector>

#include "planner/enumerate.h"
#include "planner/memory.h"

namespace lockstep::planner {

struct Found {
  Candidate candidate;
  StepTime time;
  DeviceMemory memory;
};

/// Layouts of one kind. What divides the model names the kind. Where nothing divides it, the state that ranks cut or offload
/// does.
struct Family {
  std::string name;           ///< "DDP", "ZeRO-3", "offload", "TP + PP"
  std::optional<Found> best;  ///< none: none fits
  std::string reason;         ///< why it is not the fastest; empty for the fastest family
};

struct SearchResult {
  /// Layouts of all families, the fastest first, as simulated. Offloading, tiling, gathering weights, context parallelism, and
  /// gradients that micro-batches cut must gain half a percent each; tensor parallelism must gain two percent. Layouts of the
  /// same degrees and micro-batch that are as fast within 1 % are one: the first stays. Empty: none fits.
  std::vector<Found> best;
  std::vector<Family> families;
  std::int64_t legal = 0;  ///< layouts that were looked at
  std::string needed;      ///< where none fits: what the nearest layout needs too much of; empty: not declared
};

/// The `top` fastest layouts. Formulas rule most layouts out. Those that are returned have declared memory and simulated
/// pipelines.
SearchResult search(const SearchQuestion& question, int top);

/// The seconds that layouts are ranked by: their own, and the gains that their costly parts must have (SearchResult::best).
double ranked_seconds(const Found& found);

/// The candidate's time, with the pipeline's lists simulated.
StepTime simulated_time(const Work& work, const Candidate& candidate);
/// The simulated passes of every rank.
layout::Timeline simulated(const Work& work, const Candidate& candidate);

std::string family_of(const layout::ParallelPlan& plan);

}  // namespace lockstep::planner
