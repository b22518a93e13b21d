#pragma once

// Which hosts of a job have gone, asked before it is started again.

#include <set>
#include <string>

#include "app/launch/environment.h"

namespace lockstep::launch {

/// The job's hosts on which nothing can be started. Without a scheduler they do not answer within 5 s, by ssh or Open MPI's agent
/// in its place. Slurm's sinfo or PBS's pbsnodes say which are down. Empty where no host answers: then the way to ask fails.
std::set<std::string> silent_hosts(const Machine& machine, const Facts& facts);

}  // namespace lockstep::launch
