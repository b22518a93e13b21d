#include "app/launch/known_machines.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep::launch {
namespace {

struct Known {
  std::string_view beginning;  ///< of a host's name
  std::string_view machine;
  Scheduler scheduler;
  std::int64_t devices = 0;
};

constexpr std::array<Known, 13> kMachines{{{"x4", "Aurora", Scheduler::pbs, 12},
                                           {"aurora", "Aurora", Scheduler::pbs, 12},
                                           {"x1", "SunSpot", Scheduler::pbs, 12},
                                           {"uan", "SunSpot", Scheduler::pbs, 12},
                                           {"x3", "Polaris", Scheduler::pbs},
                                           {"polaris", "Polaris", Scheduler::pbs},
                                           {"sirius", "Sirius", Scheduler::pbs},
                                           {"theta", "ThetaGPU", Scheduler::pbs},
                                           {"nid", "Perlmutter", Scheduler::slurm},
                                           {"login", "Perlmutter", Scheduler::slurm},
                                           {"perlmutter", "Perlmutter", Scheduler::slurm},
                                           {"frontier", "Frontier", Scheduler::none},
                                           {"sophia", "Sophia", Scheduler::none}}};

// x3, nid and login are followed by a number: x3005c0s13b0n0, nid001240, login07.
bool begins(std::string_view host, std::string_view beginning) {
  if (!host.starts_with(beginning)) return false;
  const bool numbered = beginning.size() == 2 || beginning == "nid" || beginning == "login";
  const std::size_t end = beginning.size();
  return !numbered || (host.size() > end && std::isdigit(static_cast<unsigned char>(host[end])) != 0);
}

const Known* find_machine(std::string_view name) {
  const auto found = std::find_if(kMachines.begin(), kMachines.end(), [&](const Known& known) { return known.machine == name; });
  return found == kMachines.end() ? nullptr : &*found;
}

}  // namespace

std::string machine_of(std::string_view host, std::string_view submitted_from) {
  for (const Known& known : kMachines) {
    if (!begins(host, known.beginning)) continue;
    return known.machine == "Polaris" && submitted_from.starts_with("sirius") ? "Sirius" : std::string(known.machine);
  }
  return std::string(host);
}

Scheduler scheduler_of(std::string_view machine) {
  const Known* known = find_machine(machine);
  return known != nullptr ? known->scheduler : Scheduler::none;
}

std::int64_t devices_of(std::string_view machine) {
  const Known* known = find_machine(machine);
  return known != nullptr ? known->devices : 0;
}

}  // namespace lockstep::launch
