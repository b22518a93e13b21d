#pragma once

// What a run tells those who print, keep or draw it. Each of them is a file of this folder; the trainer knows only their list.

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
  StopCause cause = StopCause::none;   ///< of that
  std::optional<Problem> diverged;     ///< the run has ended itself: nothing is learned any more
};

/// Every rank has listeners, and tells them in the order of their list. What is told on all ranks may be a time to exchange
/// something; an error ends the run.
class RunListener {
 public:
  virtual ~RunListener() = default;
  /// The run starts or goes on there.
  virtual void started(const RunState& /*state*/) {}
  /// A step, from 0, comes next.
  virtual void step_begins(std::int64_t /*step*/) {}
  /// The engine has done that step; its batches and gradients are still there.
  virtual void step_taken(std::int64_t /*step*/, const data::StepBatches& /*batches*/, const StepResult& /*result*/) {}
  virtual void step_done(const Metrics& /*metrics*/) {}
  /// After so many steps a rank is late, or no longer. `host`: where it runs. Rank 0.
  virtual void rank_changed(const LateChange& /*who*/, const std::string& /*host*/, std::int64_t /*step*/) {}
  /// Every log_interval steps, after step_done(). Rank 0.
  virtual void logged(const Metrics& /*metrics*/) {}
  /// An evaluation that the run's files keep, before evaluated(). Rank 0.
  virtual void kept(const Losses& /*losses*/) {}
  /// `begun`: when the steps were left for it, by now_seconds().
  virtual void evaluated(const Losses& /*losses*/, double /*begun*/) {}
  /// The text with its prompt; none on other ranks than 0, without a prompt, and where a stop was asked for.
  virtual void sampled(const std::optional<std::string>& /*text*/) {}
  /// A checkpoint is durable. `beside`: it was written during the steps, and so many are done now.
  virtual void saved(const checkpoint::SaveReport& /*report*/, std::optional<std::int64_t> /*beside*/) {}
  /// A copy of a checkpoint is whole in the memory of so many hosts; behind so many steps.
  virtual void copied(const checkpoint::SaveReport& /*report*/, int /*hosts*/, std::int64_t /*step*/) {}
  /// This rank did `what`, a literal, from `begun` until now.
  virtual void spent(std::string_view /*what*/, double /*begun*/) {}
  /// All ranks meet between two steps.
  virtual void met() {}
  /// Not where an error ends the run.
  virtual void finished(const RunEnd& /*end*/) {}
};

using RunListeners = std::vector<std::unique_ptr<RunListener>>;

}  // namespace lockstep::train
