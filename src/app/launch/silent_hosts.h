#pragma once

// Which hosts of a job have gone, asked before it is started again.

#include <set>
#include <string>

#include "app/launch/environment.h"

namespace lockstep::launch {

/// Those of all the job's hosts on which nothing can be started: no answer within 5 s (without a scheduler, by ssh or Open MPI's
/// agent in its place), or down as Slurm's sinfo or PBS's pbsnodes say. Empty where none of them answers: then the way to ask is
/// what fails.
std::set<std::string> silent_hosts(const Machine& machine, const Facts& facts);

}  // namespace lockstep::launch
