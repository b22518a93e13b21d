#pragma once

// What a training run says about itself: a log line with WordPlay's names, their legend, and one JSON object a line.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "train/engine_config.h"
#include "train/report/tensorboard.h"

namespace lockstep::train {

/// A figure over the ranks.
struct Spread {
  double mean = 0, least = 0, greatest = 0, deviation = 0;
};
/// By name, in order.
using RankTimes = std::vector<std::pair<std::string, Spread>>;

/// One log line. Times in seconds, synchronised; `dt` is the whole iteration as the clock saw it.
struct Metrics {
  std::int64_t step = 0;  ///< optimizer steps done
  double loss = 0;
  double dt = 0, dtf = 0, dtb = 0;
  double sps = 0, sps_per_gpu = 0, tps = 0, tps_per_gpu = 0;
  double mfu = 0;                              ///< percent, running
  std::optional<double> train_loss, val_loss;  ///< of the last evaluation; in the log line alone
  // Beyond the legend; only in metrics.jsonl.
  double learning_rate = 0, gradient_norm = 0;
  double update_seconds = 0, data_wait = 0;
  double exposed_seconds = 0;               ///< waiting for reductions of gradients
  comm::CollectiveSeconds waited = {};      ///< of rank 0, for other ranks
  std::optional<PipelineSeconds> pipeline;  ///< of rank 0
  bool finite = true;
  std::optional<Staleness> staleness;             ///< of asynchronous workers
  std::optional<parallel::SpillTraffic> offload;  ///< of rank 0's step, where something lies elsewhere
  RankTimes ranks;                                ///< how the ranks' times differ; empty for one rank
};

/// Losses of the weights after a step.
struct Losses {
  std::int64_t step = 0;
  double train = 0, validation = 0;
};

/// "step=10 loss=3.154310 dt=0.282833 ..."
std::string log_line(const Metrics& metrics);
/// Without what evaluations say, which have lines of their own.
Json to_json(const Metrics& metrics);
Json to_json(const Losses& losses);
/// As TensorBoard groups them; without what evaluations say.
std::vector<Scalar> scalars_of(const Metrics& metrics);
/// The table titled "Training Legend".
std::string legend();

/// Model FLOPs utilisation, running: the first value as it is, then 0.9 old + 0.1 new.
class RunningMfu {
 public:
  /// FLOPs of an iteration on one rank; peak FLOP/s of one rank.
  RunningMfu(double flops_per_iteration, double peak) : flops_(flops_per_iteration), peak_(peak) {}
  /// Percent, after an iteration of `dt` seconds.
  double update(double dt);

 private:
  double flops_, peak_;
  std::optional<double> value_;
};

}  // namespace lockstep::train
