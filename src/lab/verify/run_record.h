#pragma once

// A training run written down: every loss, gradient, weight and slot of the optimizer after every step, put together from what
// its ranks have.

#include <string>
#include <vector>

#include "lab/verify/rank_trial.h"
#include "lab/verify/whole_model.h"

namespace lockstep::lab {

/// What a run keeps of a model between steps.
struct ModelState {
  WholeValues masters, published;  ///< what is updated, and what the model reads
  std::vector<WholeValues> slots;
  /// Where a state's masters are: what is not trained has none beside what the model reads.
  const WholeValues& of(const Tensor& master) const { return master.dtype == masters.type() ? masters : published; }
};

struct RunRecord {
  /// Everything a run of `steps` steps writes, as zeros.
  RunRecord(const VerifyModel& model, const Layout& layout, int steps);
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  WholeModel whole;
  std::vector<std::string> slots;  ///< their names
  WholeValues drawn;               ///< start values as the seed gives them
  ModelState start;                ///< what the first step begins with: no bias is zero, no gain one
  struct Step {
    double loss = 0, norm = 0;
    WholeValues gradients;  ///< before the update
    ModelState after;
  };
  std::vector<Step> steps;
  double evaluated = 0;  ///< sum of token losses with the last weights

  /// What step `step` begins with.
  const ModelState& before(int step) const { return step == 0 ? start : steps[static_cast<std::size_t>(step) - 1].after; }
};

/// Writes what rank `rank` has; the ranks of a run write to one record at the same time. `like`: the run that this one starts as;
/// null: from the seed, and every value then moved by a little.
std::unique_ptr<RankObserver> make_recorder(RunRecord& record, const RunRecord* like, int rank);

/// Puts what a record has at a moment into a rank's state.
void load(const WholeModel& whole, const ModelState& from, parallel::TrainingState& state);

}  // namespace lockstep::lab
