#pragma once

// What it costs to wait less: one training by ranks together and by parameter servers in each mode, side by side.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "base/text/answer.h"

namespace lockstep::lab {

/// One training.
struct StalenessRun {
  std::string mode;                   ///< "DDP", "ps gradients", "ps weights", "ps async"
  std::optional<std::int64_t> bound;  ///< of ps async, in steps; none: no bound
  bool asynchronous = false;
  double mean = 0, greatest = 0;  ///< staleness that was seen, in updates
  Series validation;              ///< loss by step
  double tokens_per_second = 0;

  double final_loss() const { return validation.y.empty() ? 0 : validation.y.back(); }
  /// "ps async, bound 4".
  std::string name() const;
};

struct StalenessReport {
  std::int64_t workers = 0, servers = 0, steps = 0, tokens = 0;  ///< of every run
  std::vector<StalenessRun> runs;
  /// The run that the others are compared with: the first whose workers wait for each other. Null: there is none.
  const StalenessRun* synchronous() const;
  /// How much higher the run's last validation loss is than the synchronous run's, in percent.
  double difference(const StalenessRun& run) const;
};

/// A table, and the curves in one plot.
Answer answer_of(const StalenessReport& report);

/// A text that can be learnt and needs no download. It has words of a made-up language, each followed by certain others. It is a
/// function of `seed`.
std::string made_up_text(std::uint64_t seed, std::size_t bytes);

}  // namespace lockstep::lab
