#pragma once

// What a sweep's figures follow from, but for the machine: a sweep that goes on must have the same.

#include <cstdint>
#include <string>
#include <vector>

#include "app/sweep/sweep_plan.h"
#include "base/json.h"
#include "base/log.h"

namespace lockstep::app {

/// Version, steps, ranks and settings of all points, and the tables of schedules that they name.
Json definition_of(std::int64_t steps, const std::vector<SweepPoint>& points);
/// Checksums of the tokens, and the vocabulary, of each folder that points read. A dataset that is not there yet is prepared.
Json texts_of(const std::vector<SweepPoint>& points, Log& log);
/// What two sweeps differ in, in words; `now` may lack the texts. Empty: nothing.
std::vector<std::string> differences(const Json& then, const Json& now);

}  // namespace lockstep::app
