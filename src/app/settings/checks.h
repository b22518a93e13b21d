#pragma once

// What settings must keep to together: which exclude each other, and which this program or machine cannot serve.

#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "base/error.h"

namespace lockstep::app {

/// Everything wrong with the settings taken together (each alone is checked when it is read); empty when nothing is.
std::vector<Problem> check(const RunConfig& config);
/// What warm-up and decay of the learning rate leave each other, where one of them is not as long as its settings say; else
/// empty.
std::string odd_rates(const RunConfig& config);
/// What keeps a sound configuration from running here: a backend, instruction set or start that this version or machine
/// lacks. --dry-run does not ask.
std::vector<Problem> check_runnable(const RunConfig& config);

}  // namespace lockstep::app
