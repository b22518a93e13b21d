#pragma once

// What runs left in their folders, as a report compares them.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/report/run_origin.h"
#include "app/settings/run_config.h"
#include "app/start/resources.h"
#include "base/error.h"
#include "base/terminal.h"
#include "io/file.h"
#include "layout/pipeline/simulation.h"
#include "train/report/logged_step.h"

namespace lockstep::app {

struct SampledText {
  std::int64_t step = 0;
  std::string text;  ///< with its prompt
};

struct RunData {
  io::Path folder;
  std::string label;  ///< the end of its path that tells it apart from the other runs
  std::string name;   ///< the run's own
  RunConfig config;
  std::optional<Resources> resources;      ///< none: an older version made the run
  std::optional<RunOrigin> origin;         ///< none: as read_origin()
  std::vector<train::LoggedStep> steps;    ///< what a resume did again stands here once
  std::vector<train::Losses> evaluations;  ///< in the order of their steps; an older version's lack the training text's
  std::vector<SampledText> samples;        ///< in the order of their steps; none: an older version made the run

  /// What read_again() knows of the run's files.
  struct Read {
    train::LinesRead metrics, samples;
    std::string mark;
  } read;

  // Medians over the steps but the first, which warms everything up.
  double tokens_per_second() const;
  double seconds() const;
  double mfu() const;                 ///< percent of the peak that was timed when the run began
  std::optional<double> hfu() const;  ///< likewise; none: an older version made the run
  std::optional<double> tflops_per_rank() const;
  /// Seconds of a step by part. What is lost to late ranks is a mean.
  std::array<double, train::kStepParts> account() const;
  /// What rank 0 exchanges in a step for a purpose; none as LoggedStep::exchanged.
  std::optional<comm::Exchanged> exchanged(comm::Purpose purpose) const;
  /// The bubble as measured: the part of a step's passes in which pipeline ranks are in none, mean over ranks. None: the run has
  /// no pipeline, or an older version made it.
  std::optional<double> waiting() const;
  /// The gradient noise scale in tokens, of all logged steps; none: noise hides the gradient, or steps have one micro-batch.
  std::optional<double> noise_scale() const;
  /// The noise scale by running sums: with each line what came before counts 0.9 times as much.
  Series noise(bool by_tokens) const;
  /// Loss by step, or by tokens, of the steps that had targets.
  Series loss(bool by_tokens) const;
  /// The loss of the last of them; none: no step had targets.
  std::optional<double> last_loss() const;
  /// The tokens of the run's first `step` steps.
  double tokens_at(std::int64_t step) const;
  Series validation(bool by_tokens) const;
  /// Another figure by step or tokens.
  Series curve(double train::LoggedStep::* figure, bool by_tokens) const;
  /// "dp=2 pp=2 (1f1b)".
  std::string layout() const;
  /// FLOP/s of one thread, as timed when the run began; 0: an older version made the run.
  double thread_peak() const;
  std::int64_t ranks() const { return resources ? resources->ranks : 1; }
  /// The timeline of the run's pipeline if all passes took equally long; none: it has no pipeline, or a schedule from a file.
  std::optional<layout::Timeline> schedule() const;
};

/// Reads as read_runs() does, but returns what is wrong. `runs` may have been read before: then what was appended to their files
/// is read. A run that another one has replaced is read from its beginning.
std::vector<Problem> read_again(const std::vector<std::string>& folders, std::vector<RunData>& runs);
/// The runs of these folders, each of which is a run's or has runs in it (runs_in); of the latter those that have metrics. Throws
/// UserError with every folder that has no run, or a run without metrics, and every run that is named twice.
std::vector<RunData> read_runs(const std::vector<std::string>& folders);
/// The part's name, which says the rank that is late where one is in all of these runs.
std::string name_of(train::StepPart part, const std::vector<RunData>& runs);
/// Whether losses are to be compared at equal tokens, because steps have different numbers of them.
bool compares_by_tokens(const std::vector<RunData>& runs);

/// A setting, and its value in each column.
struct SettingRow {
  std::string_view key;
  std::vector<std::string> values;
  bool differs = false;
};
/// All settings of the runs; of one run, those of the defaults come first. Where runs lie and what they are called is left out.
std::vector<SettingRow> setting_rows(const std::vector<RunData>& runs);

}  // namespace lockstep::app
