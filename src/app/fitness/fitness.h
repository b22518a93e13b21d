#pragma once

// Is this machine or cluster fit for training? The commands and benches that say so, and what they share.

#include <cstdint>
#include <optional>

#include "app/command.h"

namespace lockstep::app {

/// How many ranks a command that looks at the machine runs on.
struct RankCount {
  std::int64_t to_start;  ///< for RankOptions
  std::int64_t total;
};
/// As the user says, else one a core; under mpiexec or srun those that it has started.
RankCount rank_count(const std::optional<std::int64_t>& asked);

/// `lockstep bench collectives`; returns the exit code.
int bench_collectives(const Arguments& arguments);
/// `lockstep bench overlap`
int bench_overlap(const Arguments& arguments);
/// `lockstep bench checkpoint`
int bench_checkpoint(const Arguments& arguments);

}  // namespace lockstep::app
