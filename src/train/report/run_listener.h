#pragma once

// The interface of what prints, keeps or draws a run. Each listener is a file of this folder; the trainer knows only their list.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/batch_source.h"
#include "train/report/metrics.h"
#include "train/saving/save.h"
#include "train/stop_signal.h"

namespace lockstep::train {

/// How a run ended.
struct RunEnd {
  std::int64_t steps = 0;              ///< optimizer steps done, all in all
  std::optional<std::string> stopped;  ///< why before max_iters
  StopCause cause = StopCause::none;   ///< the cause of `stopped`
  std::optional<Problem> diverged;     ///< why the run has ended itself: nothing is learned any more
};

/// Every rank has listeners, and calls them in the order of their list. An event that comes on all ranks may be used for a
/// collective exchange. An error ends the run.
class RunListener {
 public:
  virtual ~RunListener() = default;
  /// The run starts, or goes on, at `state`.
  virtual void started(const RunState& /*state*/) {}
  /// The step begins next; the first step is 0.
  virtual void step_begins(std::int64_t /*step*/) {}
  /// The engine has done the step; its batches and gradients are still there.
  virtual void step_taken(std::int64_t /*step*/, const data::StepBatches& /*batches*/, const StepResult& /*result*/) {}
  virtual void step_done(const Metrics& /*metrics*/) {}
  /// Behind step `step` a rank is late, or no longer. `host`: where that rank runs. On rank 0.
  virtual void rank_changed(const LateChange& /*who*/, const std::string& /*host*/, std::int64_t /*step*/) {}
  /// Every log_interval steps, after step_done(). Rank 0.
  virtual void logged(const Metrics& /*metrics*/) {}
  /// An evaluation that the run's files keep, before evaluated(). Rank 0.
  virtual void kept(const Losses& /*losses*/) {}
  /// `begun`: when the run turned from steps to the evaluation, by now_seconds().
  virtual void evaluated(const Losses& /*losses*/, double /*begun*/) {}
  /// The text with its prompt. None on ranks other than 0, without a prompt, and where a stop was asked for.
  virtual void sampled(const std::optional<std::string>& /*text*/) {}
  /// A checkpoint is durable. `beside`: the steps that are done now, where it was written while the run went on; else none.
  virtual void saved(const checkpoint::SaveReport& /*report*/, std::optional<std::int64_t> /*beside*/) {}
  /// A copy of a checkpoint is complete in the memory of `hosts` hosts. `step`: the steps that are done now.
  virtual void copied(const checkpoint::SaveReport& /*report*/, int /*hosts*/, std::int64_t /*step*/) {}
  /// This rank did `what`, a literal, from `begun` until now.
  virtual void spent(std::string_view /*what*/, double /*begun*/) {}
  /// All ranks meet between two steps.
  virtual void met() {}
  /// The run has ended. Not called where an error ends it.
  virtual void finished(const RunEnd& /*end*/) {}
};

using RunListeners = std::vector<std::unique_ptr<RunListener>>;

}  // namespace lockstep::train
