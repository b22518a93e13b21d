#pragma once

// What a training run says about itself, in figures.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "parallel/groups.h"
#include "train/engine_config.h"
#include "train/late/late_ranks.h"

namespace lockstep::train {

class Engine;

/// The form of a run's lines. `plain` has few; `wordplay` has those of the WordPlay program, `rasbt` those of the book.
enum class LogStyle : std::uint8_t { plain, wordplay, rasbt };

/// Mean, extremes and deviation of a figure over the ranks.
struct Spread {
  double mean = 0, least = 0, greatest = 0, deviation = 0;
};
/// Spreads with the names of their figures, in order.
using RankTimes = std::vector<std::pair<std::string, Spread>>;

/// A step as the loop saw it. Times in seconds, synchronised; `dt` is the whole iteration as the clock saw it.
struct Metrics : StepResult {
  std::int64_t step = 0;  ///< optimizer steps done
  double tokens = 0;      ///< of all ranks
  double dt = 0, dtf = 0, dtb = 0;
  double sps = 0, sps_per_gpu = 0, tps = 0, tps_per_gpu = 0;
  double mfu = 0, hfu = 0;                     ///< percent, running averages over logged steps; set in these alone
  double tflops_per_gpu = 0;                   ///< MFU's FLOPs by this step's time, in logged steps alone
  std::optional<double> train_loss, val_loss;  ///< of the last evaluation; in the log line alone
  double learning_rate = 0;
  double data_wait = 0;
  std::optional<LateRank> late;  ///< the rank that the others wait for; in logged steps, on rank 0
  RankTimes ranks;               ///< how the ranks' times differ, in logged steps; empty for one rank
};

/// False where no rank had a target: such a step's loss of 0 says nothing.
inline bool has_loss(const StepResult& result) { return result.targets > 0 || result.loss != 0; }

/// The metrics of a step that took `dt` seconds, without what the training loop alone knows.
Metrics measure(const Engine& engine, const StepResult& result, double dt);
/// Turns sums over this rank's groups of samples into means over the `groups` groups of all ranks. Collective over the ranks that
/// train.
void gather(SampleFigures& figures, double groups, const parallel::Groups& ranks);
/// Spreads of a step's times over the ranks, each of which gives its own. Empty for one rank. Collective.
RankTimes gather_times(const Metrics& metrics, comm::Communicator& world);

/// FLOPs of a step on one rank, by arch::training_flops_per_token(): ranks that work on one sample together divide its FLOPs.
double flops_per_iteration(const EngineConfig& config);
/// HFU over MFU: the model's FLOPs with recomputation, over those without.
double hardware_share(const EngineConfig& config);

/// Model FLOPs utilisation, running: the first value as it is, then 0.9 old + 0.1 new.
class RunningMfu {
 public:
  /// FLOPs of an iteration on one rank; peak FLOP/s of one rank.
  RunningMfu(double flops_per_iteration, double peak) : flops_(flops_per_iteration), peak_(peak) {}
  RunningMfu(const EngineConfig& config, double peak);
  /// Percent, after an iteration of `dt` seconds.
  double update(double dt);
  /// MFU, HFU and TFLOPS of an iteration of metrics.dt seconds.
  void put(Metrics& metrics);

 private:
  double flops_, peak_, hardware_share_ = 1;
  std::optional<double> value_;
};

/// The traffic of each purpose of an exchange, with the purpose's name.
std::vector<std::pair<std::string, comm::Exchanged>> sent_by_purpose(const comm::Traffic& traffic);

/// Losses of the weights after a step.
struct Losses {
  std::int64_t step = 0;
  double train = 0, validation = 0;
  std::optional<SampleFigures> figures = {};  ///< means over the validation text
};

}  // namespace lockstep::train
