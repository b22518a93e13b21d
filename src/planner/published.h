#pragma once

// Throughputs that papers measured on up to 3,072 A100s, beside the planner's predictions for the same layouts. They tell how far
// its times can be trusted. Sources: Narayanan et al. 2021 (arXiv 2104.04473), tables 1 and 2; Korthikanti et al. 2022 (arXiv
// 2205.05198), table 5.

#include <string>
#include <vector>

#include "planner/step_time.h"

namespace lockstep::planner {

struct PublishedFigure {
  std::string name;  ///< table, parameters, layout
  arch::ModelConfig model;
  System system;
  layout::ParallelPlan plan;  ///< what was not published has defaults
  std::int64_t batch = 1;     ///< samples of a step
  std::int64_t samples = 0;   ///< of a micro-batch; 0: not published
  bool any_chunks = false;    ///< whether the number of virtual stages was not published
  double tflops = 0;          ///< of a device, recomputed passes included; or
  double seconds = 0;         ///< of a step
};
/// All 30 published figures.
const std::vector<PublishedFigure>& published_figures();

/// The planner's prediction of a published figure.
struct Prediction {
  const PublishedFigure* figure;
  Candidate candidate;          ///< what was not published is chosen for the least time
  double predicted, published;  ///< both TFLOPS, or both seconds
  double seconds;               ///< predicted seconds of a step
  /// The predicted speed over the published one, minus 1.
  double error() const { return figure->seconds > 0 ? published / predicted - 1 : predicted / published - 1; }
};
std::vector<Prediction> predict_published(const Machine& machine);

/// The a100 preset, fitted to published figures. Its product share is fitted to the 7.5 billion row alone. Its link share is
/// fitted to the ZeRO-3 row of 1,536 devices.
Machine fitted_machine();

/// The score of one rate for all layouts, and the TFLOPS with the best score. `within`: figures within `tolerance` of that rate.
/// Recomputed passes are included.
struct SingleRate {
  double tflops;
  int within;
};
SingleRate best_single_rate(double tolerance);

}  // namespace lockstep::planner
