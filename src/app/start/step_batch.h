#pragma once

// How many micro-batches a step has, where its samples or tokens are given.

#include <cstdint>
#include <vector>

#include "app/settings/run_config.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/find.h"

namespace lockstep::app {

/// Sets optimizer.gas so that `ranks` that train take `kept` samples a step. Returns why that cannot be.
std::vector<Problem> keep_global_batch(RunConfig& config, std::int64_t kept, std::int64_t ranks);
/// The same with the samples of a step that the checkpoint's run took. The log is told of a change.
std::vector<Problem> keep_global_batch(RunConfig& config, const checkpoint::Choice& choice, std::int64_t ranks, Log& log);

/// Makes optimizer.gas of train.tokens_per_step, where that is given: a step's tokens are micro-batches of all replicas among the
/// `ranks`. Returns why that cannot be.
std::vector<Problem> settle_tokens(RunConfig& config, bool gas_is_given, std::int64_t ranks);

}  // namespace lockstep::app
