#pragma once

// The machines that ezpz knows by the names of their hosts.

#include <string>
#include <string_view>

#include "app/launch/environment.h"

namespace lockstep::launch {

/// The machine's name by its host's: "Polaris" for x3005c0s13b0n0. An unknown machine has the host's own name. `submitted_from`:
/// PBS_O_HOST, by which Sirius is told from Polaris.
std::string machine_of(std::string_view host, std::string_view submitted_from);
/// Which scheduler gives out the hosts of a known machine.
Scheduler scheduler_of(std::string_view machine);
/// Devices of a host of the machine that nvidia-smi does not list; 0: none are known.
std::int64_t devices_of(std::string_view machine);

}  // namespace lockstep::launch
