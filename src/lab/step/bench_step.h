#pragma once

// Times whole optimizer steps of one shape: forward, backward, clipping and AdamW on one fixed batch, and says where the time
// went. The headline figures come from plain steps; the account from further steps whose ops are timed.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/answer.h"
#include "comm/communicator.h"
#include "device/runtime.h"
#include "lab/layouts.h"
#include "lab/step/floor.h"
#include "lab/step/op_account.h"
#include "lab/step/rank_accounts.h"
#include "lab/step/step_shapes.h"
#include "lab/step/step_training.h"
#include "ops/ops.h"
#include "parallel/parameter_store.h"

namespace lockstep::lab {

/// Makes the kernels of this rank a second time, observed.
using MakeObservedOps = std::function<std::unique_ptr<ops::Ops>(ops::OpObserver& observer)>;

struct StepBenchOptions {
  parallel::WeightStorage weights = {};
  std::optional<Layout> layout = {};  ///< none: all ranks share the samples
  int steps = 20;                     ///< timed steps, at most
  double seconds = 40;                ///< no further step is begun after this (but there are at least three)
  std::string_view version;           ///< of this program
  MakeObservedOps observed_ops = {};  ///< for the account; empty: there is none
};

struct StepReport {
  StepShape shape;
  std::string version;
  DType dtype = DType::f32;  ///< of weights and activations
  Layout layout;
  double bubble = 0;                  ///< the share of all ranks' time that the schedule leaves idle, with stages of equal time
  std::int64_t activation_bytes = 0;  ///< activations in the engine's memory, on a rank
  std::int64_t memory_bytes = 0;      ///< all memory of the engine and of kernels, on a rank
  int ranks = 1;
  int threads = 0;              ///< of all ranks
  std::string gpu = {};         ///< the GPU that computes; empty: the processor does
  std::vector<double> seconds;  ///< of each timed step
  double flops_per_token = 0;
  double peak_flops = 0;              ///< of all ranks, to compare with; 0: not known. The caller sets it
  double first_step_seconds = 0;      ///< the first step alone
  double first_step_after_start = 0;  ///< from the process's start to the first step's end
  double first_loss = 0, last_loss = 0;
  double exposed_seconds = 0;  ///< of a step, waiting for the reduction of gradients: the median, on this rank
  std::int64_t peak_mib = 0;

  // The steps whose ops were timed: seconds a step by Part, whose sum is account_seconds.
  std::array<double, static_cast<std::size_t>(Part::count)> account{};
  double account_seconds = 0;
  int account_steps = 0;              ///< 0: there is no account
  std::vector<OpTime> ops;            ///< sums over account_steps
  std::vector<ProductTime> products;  ///< sums over account_steps
  std::vector<RankAccount> each;      ///< of every rank, in the same steps
  std::vector<StageAccount> stages;   ///< of a pipeline's ranks, in the same steps

  std::optional<Floor> floor;  ///< set by the caller

  double median_seconds() const;
  double tokens_per_second() const;
  /// median_seconds over the floor.
  std::optional<double> floor_ratio() const;
};

/// Collective; the report is rank 0's. Throws UserError when options are out of range, or where the layout does not fit the shape
/// and the ranks of `world`.
StepReport bench_step(const StepShape& shape, const StepBenchOptions& options, Runtime& runtime, ops::Ops& ops,
                      comm::Communicator& world);

/// `details` adds every op and every product to the text. JSON has the keys that other programs' step benchmarks print. It also
/// has `floor_ratio`, and `account`: shares of a step's time by part. `stages` are a pipeline's ranks: seconds of a step in
/// passes, and shares of waiting.
Answer answer_of(const StepReport& report, bool details);

}  // namespace lockstep::lab
