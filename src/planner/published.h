#pragma once

// Throughputs that papers measured on up to 3,072 A100s, beside what the planner says of the same layouts: how far its times can
// be trusted. Narayanan et al. 2021 (arXiv 2104.04473), tables 1 and 2; Korthikanti et al. 2022 (arXiv 2205.05198), table 5.

#include <string>
#include <vector>

#include "planner/step_time.h"

namespace lockstep::planner {

struct PublishedFigure {
  std::string name;  ///< table, parameters, layout
  arch::ModelConfig model;
  System system;
  layout::ParallelPlan plan;  ///< without what was not published
  std::int64_t batch = 1;     ///< samples of a step
  std::int64_t samples = 0;   ///< of a micro-batch; 0: not published
  bool any_chunks = false;    ///< virtual stages were not published
  double tflops = 0;          ///< of a device, recomputed passes included; or
  double seconds = 0;         ///< of a step
};
/// All 30.
const std::vector<PublishedFigure>& published_figures();

/// A figure that the planner was asked for.
struct Prediction {
  const PublishedFigure* figure;
  Candidate candidate;          ///< with what was not published as it is best
  double predicted, published;  ///< both TFLOPS, or both seconds
  double seconds;               ///< predicted, of a step
  /// How much faster than published, from -1 on.
  double error() const { return figure->seconds > 0 ? published / predicted - 1 : predicted / published - 1; }
};
std::vector<Prediction> predict_published(const Machine& machine);

/// The a100 preset's product share, fitted to the 7.5 billion row alone, and its link share, to the ZeRO-3 row of 1,536 devices.
Machine fitted_machine();

/// What one rate for all layouts would score: the TFLOPS, recomputed passes included, that most figures are within `tolerance`
/// of, and how many.
struct SingleRate {
  double tflops;
  int within;
};
SingleRate best_single_rate(double tolerance);

}  // namespace lockstep::planner
