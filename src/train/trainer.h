#pragma once

// The training loop: evaluate and sample, step, log, save, stop. It decides when each comes; listeners print, keep and draw. It
// owns no memory of the model and reads no configuration file.

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
#include "io/held_folder.h"
#include "train/engine.h"
#include "train/evaluator.h"
#include "train/late/late_watch.h"
#include "train/lr_schedule.h"
#include "train/report/run_listener.h"
#include "train/sample.h"
#include "train/saving/copies.h"
#include "train/saving/running_save.h"
#include "train/state.h"
#include "train/stop_signal.h"

namespace lockstep::train {

struct TrainerOptions {
  std::int64_t max_iters = 1000;
  std::int64_t log_interval = 10;  ///< the last step is logged too
  std::int64_t eval_interval = 250;
  std::int64_t checkpoint_interval = 250;
  std::optional<double> checkpoint_seconds = {};  ///< a save at this interval too, where saves do not hold up training too much
  bool saves_beside = false;  ///< checkpoints are written while training goes on; the engine's configuration says so too
  std::optional<CopyPlace> copies = {};  ///< where saves by the clock go, once the run has a checkpoint; none: to its folder
  bool eval_only = false;
  LrSchedule schedule;
  SampleOptions sample;
  std::string prompt;                     ///< of the samples, as it was typed
  std::vector<std::int32_t> sample_ends;  ///< tokens that end a sample before its length, and are not in it
  LogStyle style = LogStyle::plain;       ///< determines the order of evaluations, samples and steps
  std::int64_t epoch_samples = 0;         ///< 0: there are no epochs, and the style is WordPlay's
  std::int64_t sample_epochs = 0;         ///< a sample after the first epoch and after every so many; 0: at evaluations
  std::int64_t max_skipped = 10;          ///< so many steps in a row with a gradient that is not finite end the run
  double peak_flops = 312e12;             ///< of this rank, for MFU
  io::Path folder;                        ///< of the run
  const io::HeldFolder* held = nullptr;   ///< `folder` as it was when the run began; null: not checked
  SwitchOptions switches;
  std::vector<std::string> hosts = {};     ///< by rank; empty: cores are shared, and no rank is called late
  double started = 0;                      ///< now_seconds() of the program's start
  std::function<void()> before_save = {};  ///< on rank 0: throws why it cannot write into the run's folder; may be empty
  Json run;                                ///< goes into checkpoints: what the caller wants back
  bool watches = true;  ///< asks signals, switch files and the clock: one rank of each process; all ranks follow what one finds
};

/// The objects that a trainer works with; all outlive it. Rank 0 writes the run's files.
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
  /// Runs from `state` to max_iters or a stop, and tells `listeners`. Starts the loader. Throws SystemError once the run's folder
  /// is gone.
  void run(RunState state, RunListeners listeners);

 private:
  /// Evaluates and samples with the newest weights.
  void evaluate_and_sample(bool evaluates, bool samples);
  /// Returns false where a stop was asked for before the evaluation was done. `begun`: by now_seconds().
  bool evaluate(double begun);
  void read_prompt();
  /// Writes a sample with the weights as training has them. Packed weights (Inference::prepack) would be a second copy, to be
  /// made anew after each step. All ranks write the same text, for their leases are alike; rank 0 tells it to listeners.
  void write_sample();
  void save();
  /// Writes the checkpoint at once. Where the folder is renamed meanwhile, it is written again where the folder is now, before
  /// the error is thrown.
  checkpoint::SaveReport save_here();
  /// Saves into the hosts' memory.
  void copy();
  /// Whether the run's folder is in its place, and collect() is true.
  bool ready_to_save();
  /// Whether all that a save reads is here and in order. Weights that are not finite are not saved: the run has diverged. Nor are
  /// those that gave no finite loss or gradient, which would take the place of good ones.
  bool collect();
  /// Whether the last evaluation and the last gradient are finite, on all ranks. A gradient that is not leaves the weights as
  /// they are. Where the run ends at the first such step, a batch's loss tells whether these are good. Collective.
  bool sound() const;
  /// Waits until the save that goes on beside training is durable. Collective.
  void finish_save();
  void tell_save(const checkpoint::SaveReport& report);
  void end_diverged(const std::string& what);
  void one_step();
  /// Logs the last step, unless it is logged already. The run's last step is logged whatever the interval is. Collective.
  void log_step();
  void run_to_end();
  /// Takes steps until the last one, or until there is a cause to stop.
  StopCause take_steps();
  /// Ends the run for `cause`. Throws where nothing can be saved any more.
  void stop(StopCause cause);
  /// Saves the last step where the run's folder is now; nothing where it was removed. Collective.
  void save_elsewhere();
  enum class Save : std::uint8_t { none, copy, checkpoint };
  void save(Save wanted);
  /// What the ranks agree to do now: a cause to leave, or a save.
  StopCause agree(Save& save);
  /// Goes on with saves beside steps. `busy`, `copying`: a rank has to wait for the checkpoint, or for the copy. Collective.
  void advance_saves(bool busy, bool copying);
  void meet();
  /// Why this rank, or a rank of another kind, would stop now.
  StopCause own_stop_cause() const;
  /// Why any rank would stop now. What takes long asks this between its parts. Collective.
  StopCause any_stop_cause() const;
  /// Whether all ranks write a further token after one of rank 0's sample, which may end the sample. Workers of an asynchronous
  /// server have weights, and samples, of their own. `whole`: no stop was asked for. Collective.
  bool sample_goes_on(bool ended, bool& whole) const;
  bool lead() const { return parts_.engine.groups().lead(); }
  /// Whether an evaluation comes now, behind the last step.
  bool evaluation_due() const;
  bool sample_due() const;
  /// Whether checkpoint_seconds asks for a save, by rank 0's clock.
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
