#pragma once

// The training loop: evaluate and sample, step, log, save, stop. It decides when; what is printed, kept or drawn of it are
// listeners. It owns no memory of the model and reads no configuration file.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/loader.h"
#include "data/tokenizer.h"
#include "train/engine.h"
#include "train/evaluator.h"
#include "train/late/late_watch.h"
#include "train/lr_schedule.h"
#include "train/report/run_listener.h"
#include "train/sample.h"
#include "train/saving/copies.h"
#include "train/saving/lost_folder.h"
#include "train/saving/running_save.h"
#include "train/state.h"
#include "train/stop_signal.h"

namespace lockstep::train {

struct TrainerOptions {
  std::int64_t max_iters = 1000;
  std::int64_t log_interval = 10;  ///< the last step is logged too
  std::int64_t eval_interval = 250;
  std::int64_t checkpoint_interval = 250;
  std::optional<double> checkpoint_seconds = {};  ///< a save by the clock too, where saves do not hold up training too much
  bool saves_beside = false;  ///< checkpoints are written while training goes on; the engine's configuration says so too
  std::optional<CopyPlace> copies = {};  ///< where saves by the clock go, once the run has a checkpoint; none: to its folder
  bool eval_only = false;
  LrSchedule schedule;
  SampleOptions sample;
  std::string prompt;                     ///< of the samples; as it was typed
  std::vector<std::int32_t> sample_ends;  ///< tokens that end a sample before its length, and are not in it
  LogStyle style = LogStyle::plain;       ///< whose order evaluations, samples and steps have
  std::int64_t steps_per_epoch = 0;       ///< 0: there are no epochs, and the style is WordPlay's
  std::int64_t sample_epochs = 0;         ///< a sample after the first epoch and after every so many from it; 0: at evaluations
  std::int64_t max_skipped = 10;          ///< steps in a row whose gradient is not finite, which end the run
  double peak_flops = 312e12;             ///< of this rank, for MFU
  io::Path folder;                        ///< of the run
  const io::HeldFolder* held = nullptr;   ///< `folder` as it was when the run began; null: not checked
  SwitchOptions switches;
  std::vector<std::string> hosts = {};     ///< by rank; empty: cores are shared, and no rank is called late
  double started = 0;                      ///< now_seconds() of the program's start
  std::function<void()> before_save = {};  ///< on rank 0: throws what keeps it from writing into the run's folder; or empty
  Json run;                                ///< goes into checkpoints: what the caller wants back
  bool watches = true;  ///< asks signals, switch files and the clock: one rank of each process; all ranks follow what one finds
};

/// Everything a trainer works with; all outlive it. Rank 0 writes the run's files.
struct TrainerParts {
  Engine& engine;
  data::BatchSource& loader;
  data::WindowSource& train_text;
  data::WindowSource& val_text;
  TextSampler& sampler;
  const data::Tokenizer* tokenizer;  ///< null: no samples; alike on all ranks
  Team& team;
  Log& log;
};

class Trainer {
 public:
  Trainer(TrainerOptions options, TrainerParts parts);
  /// From `state` to the end, a stop, or max_iters, told to `listeners`. The loader is started here. Throws SystemError once the
  /// run's folder is gone.
  void run(RunState state, RunListeners listeners);

 private:
  /// Text and losses of the newest weights.
  void evaluate_and_sample(bool evaluates, bool samples);
  /// Returns false where a stop was asked for before it was done. `begun`: by now_seconds().
  bool evaluate(double begun);
  void read_prompt();
  /// With the weights as training has them: packed ones (Inference::prepack) would be a second copy, to be made anew after each
  /// step. All ranks write the same text, for their leases are alike; rank 0 tells it.
  void write_sample();
  void save();
  /// The same into the hosts' memory.
  void copy();
  /// All that a save reads is here and as it should be. Weights that are not finite are not saved: the run has diverged.
  bool ready_to_save();
  /// Until the save that goes on beside training is durable. Collective.
  void finish_save();
  void tell_save(const checkpoint::SaveReport& report);
  void end_diverged(const std::string& what);
  void one_step();
  /// Logs the last step, unless that was done. The run's last one is logged whatever the interval is. Collective.
  void log_step();
  void run_to_end();
  /// Until the last step, or a cause to stop before it.
  StopCause take_steps();
  /// Throws where nothing can be saved any more.
  void stop(StopCause cause);
  enum class Save : std::uint8_t { none, copy, checkpoint };
  /// What the ranks do now, agreed: a reason to leave, or a save.
  StopCause agree(Save& save);
  /// What is saved beside steps goes on. `busy`, `copying`: a rank has to wait for the checkpoint, or the copy. Collective.
  void advance_saves(bool busy, bool copying);
  void meet();
  /// Why this rank would stop now, or one of another kind.
  StopCause own_stop_cause() const;
  /// Why any rank would stop now: what takes long asks it between its parts. Collective.
  StopCause any_stop_cause() const;
  /// Whether all go on behind a token of rank 0's sample, which may end it: workers that wait for nobody have weights, and texts,
  /// of their own. `whole`: no stop was asked for. Collective.
  bool sample_goes_on(bool ended, bool& whole) const;
  bool lead() const { return parts_.engine.groups().lead(); }
  /// Now, behind the last step.
  bool evaluation_due() const;
  bool sample_due() const;
  /// By checkpoint_seconds; as rank 0 sees it.
  bool save_due_by_clock() const;
  bool due(std::int64_t interval) const { return interval > 0 && state_.step % interval == 0; }

  /// Calls the event of every listener, in their order.
  template <class... Told>
  void tell(void (RunListener::*event)(Told...), std::type_identity_t<Told>... told) {
    for (const std::unique_ptr<RunListener>& listener : listeners_) (*listener.*event)(told...);
  }

  TrainerOptions options_;
  TrainerParts parts_;
  RunListeners listeners_;
  std::optional<Switches> switches_;
  RunState state_;
  RunEnd end_;
  std::optional<Losses> losses_;              // of the last evaluation
  std::int64_t evaluated_ = -1, saved_ = -1;  // steps
  std::optional<std::int64_t> durable_;       // the step of the last checkpoint
  std::unique_ptr<RunningSave> running_save_;
  std::unique_ptr<Copies> copies_;
  RunningMfu mfu_;
  std::optional<LateWatch> late_;
  std::int64_t first_step_ = 0;  // where this start of the run began
  Metrics last_;                 // of the last step
  std::int64_t logged_ = 0;      // the last step that was logged
  Save save_wanted_ = Save::none;
  std::vector<std::int32_t> prompt_;  // of the samples; empty: none is written
  std::int64_t skipped_ = 0;          // steps in a row
  double last_end_ = 0, waited_ = 0;
  double saved_at_ = 0, held_up_ = 0;  // when the last save let training go on, and how long it had waited for it
  parallel::GradientNoise noise_;      // since the last log line
};

}  // namespace lockstep::train
