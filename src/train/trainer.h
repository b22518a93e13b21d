#pragma once

// The training loop: evaluate and sample, step, log, save, stop. It owns no memory of the model and reads no
// configuration file.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "data/loader.h"
#include "data/tokenizer.h"
#include "io/appended_file.h"
#include "train/engine.h"
#include "train/evaluator.h"
#include "train/lr_schedule.h"
#include "train/report/metrics.h"
#include "train/report/progress.h"
#include "train/report/run_trace.h"
#include "train/report/tensorboard.h"
#include "train/report/wandb.h"
#include "train/sample.h"
#include "train/saving/lost_folder.h"
#include "train/saving/running_save.h"
#include "train/state.h"
#include "train/stop_signal.h"

namespace lockstep::train {

struct TrainerOptions {
  std::int64_t max_iters = 1000;
  std::int64_t log_interval = 10;
  std::int64_t eval_interval = 250;
  std::int64_t checkpoint_interval = 250;
  bool saves_beside = false;  ///< checkpoints are written while training goes on; the engine's configuration says so too
  bool eval_only = false;
  LrSchedule schedule;
  SampleOptions sample;
  std::string prompt;                     ///< of the samples; as it was typed
  std::vector<std::int32_t> sample_ends;  ///< tokens that end a sample before its length, and are not in it
  LogStyle style = LogStyle::wordplay;
  std::int64_t steps_per_epoch = 0;  ///< 0: there are no epochs, and the style is WordPlay's
  std::int64_t sample_epochs = 0;    ///< a sample after the first epoch and after every so many from it; 0: at evaluations
  MemoryUse memory = {};             ///< of this rank
  std::optional<std::int64_t> dump_step;
  std::int64_t max_skipped = 10;         ///< steps in a row whose gradient is not finite, which end the run
  double peak_flops = 312e12;            ///< of this rank, for MFU
  io::Path folder;                       ///< of the run
  const io::HeldFolder* held = nullptr;  ///< the same as it was when the run began; null: nobody moves it
  std::string name;                      ///< of the run
  bool tensorboard = false;              ///< also writes <folder>/tensorboard
  bool wandb = false;                    ///< also writes <folder>/wandb-history.jsonl
  SwitchOptions switches;
  double started = 0;                      ///< now_seconds() of the program's start
  std::function<void()> before_save = {};  ///< on rank 0: throws what keeps it from writing into the run's folder; or empty
  Json run;                                ///< goes into checkpoints: what the caller wants back
  bool live = false;                       ///< a terminal: progress bar instead of log lines
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
  RunTrace* trace = nullptr;  ///< null: none
};

/// What the loop leaves for the summary.
struct TrainingHistory {
  /// What a step moved to where things are offloaded, of its seconds without data, evaluations and saves.
  struct Offload {
    parallel::SpillTraffic traffic;
    double seconds = 0;
  };
  Series train{"train", {}, {}};            ///< loss by step
  Series validation{"validation", {}, {}};  ///< loss by step
  std::string sample;                       ///< the last text, prompt included; on rank 0
  std::int64_t steps = 0;                   ///< optimizer steps done, all in all
  std::optional<std::string> stopped;       ///< why before max_iters
  std::optional<Problem> diverged;          ///< the run has ended itself: nothing is learned any more
  double tokens_per_second = 0;             ///< median over the steps of this run
  std::optional<io::Path> checkpoint;       ///< the last one
  std::optional<Staleness> staleness;       ///< of asynchronous workers
  std::optional<Offload> offload;           ///< of this rank's last step
};

class Trainer {
 public:
  Trainer(TrainerOptions options, TrainerParts parts);
  /// From `state` to the end, a stop, or max_iters. The loader is started here. Throws SystemError once the run's folder is gone.
  TrainingHistory run(RunState state);

 private:
  /// Text and losses of the newest weights.
  void evaluate_and_sample(bool evaluates, bool samples);
  /// Returns false where a stop was asked for before it was done.
  bool evaluate();
  void add_validation(double loss);
  /// Into the run's files.
  void record(const Losses& losses);
  void log_evaluation(const TokenRates::Rates& rates);
  void read_prompt();
  /// With the weights as training has them: packed ones (Inference::prepack) would be a second copy, to be made anew after each
  /// step. All ranks write the same text, for their leases are alike; rank 0 keeps and logs it.
  void write_sample();
  /// Weights that are not finite are not saved: the run has diverged.
  void save();
  /// Until the save that goes on beside training is durable. Collective.
  void finish_save();
  void log_save(const checkpoint::SaveReport& report);
  void end_diverged(const std::string& what);
  data::StepBatches next_batches();
  void one_step();
  void log_step(const StepResult& result, double dt, double waited);
  void write_line(const Metrics& metrics);
  void write_json(Json json);
  void begin(const RunState& state);
  TrainingHistory run_to_end(const RunState& state);
  /// Until the last step, or a cause to stop before it.
  StopCause take_steps();
  void finish(StopCause cause);
  /// Throws where nothing can be saved any more.
  void stop(StopCause cause);
  /// What the ranks do now, agreed: a reason to leave, or a save.
  StopCause agree(bool& save);
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
  bool due(std::int64_t interval) const { return interval > 0 && state_.step % interval == 0; }

  TrainerOptions options_;
  TrainerParts parts_;
  std::optional<Switches> switches_;
  RunState state_;
  TrainingHistory history_;
  std::optional<double> train_loss_, val_loss_;
  std::int64_t evaluated_ = -1, saved_ = -1;  // steps
  std::optional<std::int64_t> durable_;       // the step of the last checkpoint
  std::unique_ptr<RunningSave> running_save_;
  RunningMfu mfu_;
  TokenRates token_rates_;
  std::int64_t first_step_ = 0;  // where this start of the run began
  bool save_wanted_ = false;
  std::vector<std::int32_t> prompt_;  // of the samples; empty: none is written
  std::int64_t skipped_ = 0;          // steps in a row
  double last_end_ = 0, waited_ = 0;
  std::vector<double> rates_;
  std::unique_ptr<ProgressBar> bar_;
  std::optional<io::AppendedFile> metrics_;
  std::optional<EventFile> events_;
  std::optional<WandbHistory> wandb_;
};

}  // namespace lockstep::train
