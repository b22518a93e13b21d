#include "app/launch/saved_environment.h"

#include <fmt/format.h>

#include <map>

#include "app/folder/manifest.h"
#include "base/shell.h"

namespace lockstep::launch {

std::string environment_file(const Facts& facts, const Machine& machine) {
  const auto home = machine.variables.find("HOME");
  if (facts.scheduler == Scheduler::none || home == machine.variables.end() || home->second.empty()) return "";
  return home->second + (facts.scheduler == Scheduler::pbs ? "/.pbsenv" : "/.slurmenv");
}

std::string environment_text(const Facts& facts, const Machine& machine, const Job& job) {
  const std::string_view own = facts.scheduler == Scheduler::pbs ? "PBS_" : "SLURM_";
  std::map<std::string, std::string> kept;
  for (const auto& [name, value] : machine.variables) {
    if (name.starts_with(own) && app::may_be_kept(name)) kept[name] = app::without_credentials(value);
  }
  for (const auto& [name, value] : job.told) kept[name] = value;
  std::string text;
  for (const auto& [name, value] : kept) text += fmt::format("export {}={}\n", name, shell_words({value}));
  return text;
}

}  // namespace lockstep::launch
