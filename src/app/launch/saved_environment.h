#pragma once

// The job's environment as a file that a shell can read again, as ezpz keeps it: ~/.pbsenv or ~/.slurmenv.

#include <string>

#include "app/launch/environment.h"
#include "app/launch/job.h"

namespace lockstep::launch {

/// Where it goes; empty without a scheduler or a home.
std::string environment_file(const Facts& facts, const Machine& machine);
/// "export NAME='value'" lines, sorted: of the scheduler's variables those that are on the list of what files may keep
/// (app/folder/manifest.h), and what the job's ranks are told.
std::string environment_text(const Facts& facts, const Machine& machine, const Job& job);

}  // namespace lockstep::launch
