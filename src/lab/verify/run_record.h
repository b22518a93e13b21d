#pragma once

// The record of a training run: every loss, gradient, weight and optimizer slot after every step. It is put together from what
// the ranks have.

#include <string>
#include <vector>

#include "lab/verify/rank_trial.h"
#include "lab/verify/whole_model.h"

namespace lockstep::lab {

/// The state of a model between steps.
struct ModelState {
  WholeValues masters, published;  ///< masters: what is updated; published: what the model reads
  std::vector<WholeValues> slots;
  /// Where the values of a state's `master` are. Weights that are not trained have no masters, only the published values.
  const WholeValues& of(const Tensor& master) const { return master.dtype == masters.type() ? masters : published; }
};

struct RunRecord {
  /// A record with zeros in place of all that a run of `steps` steps writes.
  RunRecord(const VerifyModel& model, const Layout& layout, int steps);
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  WholeModel whole;
  std::vector<std::string> slots;  ///< names of the slots
  WholeValues drawn;               ///< start values as the seed gives them
  ModelState start;                ///< the state at the first step; no bias is zero and no gain one
  struct Step {
    double loss = 0, norm = 0;
    WholeValues gradients;  ///< before the update
    ModelState after;
  };
  std::vector<Step> steps;
  double evaluated = 0;  ///< sum of token losses with the last weights

  /// The state that step `step` begins with.
  const ModelState& before(int step) const { return step == 0 ? start : steps[static_cast<std::size_t>(step) - 1].after; }
};

/// An observer that writes what rank `rank` has; the ranks of a run write to one record at the same time. `like`: the run whose
/// start this one takes. Null: it starts from the seed, and every value is then moved by a little.
std::unique_ptr<RankObserver> make_recorder(RunRecord& record, const RunRecord* like, int rank);

/// Copies a recorded state into a rank's state.
void load(const WholeModel& whole, const ModelState& from, parallel::TrainingState& state);

}  // namespace lockstep::lab
