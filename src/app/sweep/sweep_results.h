#pragma once

// What a sweep has measured: kept in its folder run by run, so that it can go on, and ranked.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/sweep/sweep_plan.h"
#include "base/json.h"
#include "io/file.h"

namespace lockstep::app {

/// One run of one point.
struct SweepRun {
  std::size_t point = 0;
  std::int64_t repeat = 0;
  double tokens_per_second = 0;  ///< median of its steps but the first
  double mfu = 0;                ///< percent of the peak that was timed when it began
  double thread_peak = 0;        ///< FLOP/s of one thread, timed then
  double step_tokens = 0;
  std::int64_t bytes = 0;      ///< of rank 0's memory
  std::vector<double> losses;  ///< of every step; 0: it had no targets
  bool diverged = false;       ///< it ended itself before its last step
};

/// Which run of a sweep.
struct RunPlace {
  std::size_t point = 0;
  std::int64_t repeat = 0;
  bool operator==(const RunPlace&) const = default;
  /// Its folder in that of the sweep.
  io::Path folder(const io::Path& sweep) const;
};

/// How long the ranks' all-reduce took, measured before runs on as many ranks.
struct AllReduceSpread {
  std::int64_t ranks = 1, bytes = 0;
  double least = 0, median = 0, greatest = 0;  ///< seconds of the slowest rank
};
/// The spread in a line.
std::string to_text(const AllReduceSpread& spread);

struct SweepResults {
  Json definition;                  ///< what the sweep is; one that goes on must have the same
  std::vector<std::string> points;  ///< labels
  std::vector<AllReduceSpread> all_reduce;
  std::vector<SweepRun> runs;
  std::vector<LeftOut> left_out = {};  ///< of the call that wrote it
  std::vector<RunPlace> begun = {};    ///< of all runs, also such as were cut short: their folders are the sweep's

  bool has(std::size_t point, std::int64_t repeat) const;
};

/// A line of the ranking.
struct SweepRow {
  std::size_t point = 0;
  std::int64_t repeats = 0;
  double median = 0, least = 0, greatest = 0;  ///< tokens/s
  double mfu = 0;                              ///< percent of the best peak that a run timed, median of repeats
  std::int64_t bytes = 0;
  /// Mean of the last tenth of the steps up to the tokens that all points have seen, median of repeats; none: not finite.
  std::optional<double> loss = {};
  bool noisy = false;     ///< within the noise of the first: some repeat of either is as fast as one of the other
  bool diverged = false;  ///< a run of it has
};
/// Fastest first, and behind those that learn the ones that diverged; points without a run are left out.
std::vector<SweepRow> ranking(const SweepResults& results);
/// Tokens that every run has seen which did not diverge; 0: there is none.
double equal_tokens(const SweepResults& results);

/// What sweep.json has.
Json to_json(const SweepResults& results);
/// Writes sweep.json and sweep.csv; each is whole or not there.
void save(const SweepResults& results, const io::Path& folder);
/// What is in the folder; nothing: no sweep has begun there. Throws UserError for a file that is no sweep's.
std::optional<SweepResults> load_sweep(const io::Path& folder);
/// The ranking, and which differences are within the noise.
std::string to_text(const SweepResults& results);

}  // namespace lockstep::app
