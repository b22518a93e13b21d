#pragma once

// A line of metrics.jsonl, as reports and predictions read it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "io/file.h"
#include "train/engine_config.h"
#include "train/report/metrics.h"

namespace lockstep::train {

/// Where rank 0's time in a step goes.
enum class StepPart : std::uint8_t { forward, backward, exposed, update, data, lost, rest, count };
inline constexpr auto kStepParts = static_cast<std::size_t>(StepPart::count);
std::string_view name_of(StepPart part);

struct LoggedStep {
  std::int64_t step = 0;
  double loss = 0;
  bool has_loss = true;              ///< false: the step had no targets, and its loss of 0 says nothing
  std::optional<double> validation;  ///< at this step; in files of older versions, at the last evaluation before
  double tokens_per_second = 0, mfu = 0, seconds = 0;
  double tokens = 0;                                 ///< of the step, all ranks
  double all_tokens = 0;                             ///< of the run up to here; set by the reader of all its lines
  std::array<double, kStepParts> parts = {};         ///< seconds, of all micro-batches
  std::optional<std::pair<double, double>> exposed;  ///< least and greatest over the ranks
  comm::CollectiveSeconds waited = {};               ///< of rank 0, for other ranks
  std::optional<comm::Traffic> exchanged;            ///< of rank 0; none: it is alone, or the file is of an older version
  std::optional<double> hfu, tflops_per_rank;        ///< none in files of older versions
  std::optional<parallel::GradientNoise> noise;      ///< over the steps since the line before
  std::optional<int> late_rank;                      ///< the rank that StepPart::lost is lost to
  std::optional<PipelineSeconds> pipeline;           ///< means over all ranks

  double& in(StepPart part) { return parts[static_cast<std::size_t>(part)]; }
  double in(StepPart part) const { return parts[static_cast<std::size_t>(part)]; }
};
/// The step of a metrics line, for a run with `microbatches` micro-batches.
LoggedStep logged_step(const Json& line, double microbatches);

/// Whether the line is an evaluation's.
bool is_evaluation(const Json& line);
Losses logged_losses(const Json& line);

/// How far a file of lines has been read.
struct LinesRead {
  std::uint64_t bytes = 0;
  std::int64_t lines = 0;
};
/// Calls use(line) for every line behind `read`, except a line that a run is still writing. Returns how far the file was read. A
/// file that is absent has no lines. Throws UserError, naming the file, for a line that is no JSON.
LinesRead for_each_logged(const io::Path& metrics, const std::function<void(const Json& line)>& use, LinesRead read = {});

}  // namespace lockstep::train
