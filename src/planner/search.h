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

/// Layouts of the same kind: by what divides the model, or where nothing does, by what ranks share out and where it lies.
struct Family {
  std::string name;           ///< "DDP", "ZeRO-3", "offload", "TP + PP"
  std::optional<Found> best;  ///< none: none fits
  std::string reason;         ///< why it is not the fastest; empty for that one
};

struct SearchResult {
  /// Layouts of all families, the fastest first, as simulated. Offloading, tiling, gathering weights, context parallelism, and
  /// gradients that micro-batches cut have half a percent to gain each; tensor parallelism has two percent to gain. Only the
  /// first of those with the same degrees and micro-batch that are as fast within 1 %. Empty: none fits.
  std::vector<Found> best;
  std::vector<Family> families;
  std::int64_t legal = 0;  ///< layouts that were looked at
  std::string needed;      ///< where none fits: what the nearest one needs too much of; empty: that was not declared
};

/// The `top` fastest. Formulas leave most layouts out; what is returned has its memory declared and its pipeline simulated.
SearchResult search(const SearchQuestion& question, int top);

/// What layouts are ranked by: its seconds, and what those of its parts that are not free to run have to gain.
double ranked_seconds(const Found& found);

/// Its time with the pipeline's lists simulated.
StepTime simulated_time(const Work& work, const Candidate& candidate);
/// Every rank's passes.
layout::Timeline simulated(const Work& work, const Candidate& candidate);

std::string family_of(const layout::ParallelPlan& plan);

}  // namespace lockstep::planner
