#pragma once

// The test_dist run as a user sees it: what it prints before, while and after it trains.

#include <filesystem>
#include <string>
#include <vector>

#include "app/start/session.h"
#include "base/log.h"
#include "lab/test_dist.h"

namespace lockstep::app {

/// Rank 0 says to `log` what is run, and every logged iteration. It prints a plot of each metric and appends it to
/// `plots`/train/<metric>.txt. Where `plots` is empty there are no plots. Returns the logged iterations. Collective.
std::vector<lab::TestDistIteration> run_test_dist(const lab::TestDistOptions& options, const std::filesystem::path& plots,
                                                  Session& session, Log& log);

}  // namespace lockstep::app
