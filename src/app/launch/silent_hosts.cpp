#include "app/launch/silent_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <sstream>

#include "base/error.h"

namespace lockstep::launch {
namespace {

using Words = std::vector<std::string>;

// What starts the ranks of other hosts, as Open MPI 4 and 5 are told (plm_rsh_component.c, plm_ssh_component.c).
Words agent_of(const Machine& machine) {
  for (const char* name : {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"}) {
    const auto found = machine.variables.find(name);
    if (found == machine.variables.end()) continue;
    std::istringstream text(found->second.substr(0, found->second.find(':')));  // of several the first
    Words words;
    for (std::string word; text >> word;) words.push_back(word);
    if (!words.empty()) return words;
  }
  return {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"};
}

bool answers(const Machine& machine, const std::string& host) {
  if (is_named(machine, host)) return true;
  Words command{"timeout", "5"};
  for (const std::string& word : agent_of(machine)) command.push_back(word);
  command.insert(command.end(), {host, "true"});
  try {
    return machine.output_of(command).has_value();
  } catch (const SystemError&) {
    return false;
  }
}

// The hosts that are down. `command` prints a host and its state a line, and `is_down` knows the states.
std::set<std::string> down_by(const Machine& machine, const Words& command, bool (*is_down)(const std::string& state)) {
  std::set<std::string> down;
  std::optional<std::string> printed;
  try {
    printed = machine.output_of(command);
  } catch (const SystemError&) {
    return {};
  }
  std::istringstream text(printed.value_or(""));
  for (std::string line; std::getline(text, line);) {
    std::string host, state;
    if (std::istringstream(line) >> host >> state && is_down(state)) down.insert(host);
  }
  return down;
}

// A star: the node does not answer (sinfo's manual, NODE STATE CODES).
bool is_down_by_slurm(const std::string& state) {
  return state.starts_with("down") || state.starts_with("fail") || state.ends_with("*");
}

bool is_down_by_pbs(const std::string& state) {
  return state.find("down") != std::string::npos || state.find("unknown") != std::string::npos;
}

std::string short_name(const std::string& host) { return host.substr(0, host.find('.')); }

}  // namespace

std::set<std::string> silent_hosts(const Machine& machine, const Facts& facts) {
  Words all = facts.hosts;
  all.insert(all.end(), facts.spare_hosts.begin(), facts.spare_hosts.end());
  std::set<std::string> silent;
  if (facts.scheduler == Scheduler::none) {
    std::vector<std::future<bool>> asked;
    for (const std::string& host : all)
      asked.push_back(std::async(std::launch::async, [&machine, &host] { return answers(machine, host); }));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!asked[i].get()) silent.insert(all[i]);
    }
  } else {
    std::set<std::string> down = facts.scheduler == Scheduler::slurm
                                     ? down_by(machine, {"sinfo", "-h", "-N", "-o", "%n %T"}, is_down_by_slurm)
                                     : down_by(machine, {"pbsnodes", "-l"}, is_down_by_pbs);
    for (const std::string& host : all) {
      const bool gone = std::ranges::any_of(down, [&](const std::string& one) { return short_name(one) == short_name(host); });
      if (gone) silent.insert(host);
    }
  }
  return silent.size() < all.size() ? silent : std::set<std::string>();
}

}  // namespace lockstep::launch
