// Who names hosts: Slurm's lists, and host files of Open MPI, MPICH and PBS.

#include <string>

#include "app/launch/environment.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const std::string text(text_of(input));
  constexpr std::int64_t most = 1000;  // longer lists only take longer
  ensure(std::ssize(launch::expand_node_list(text, most)) <= most, "a list has no more hosts than it may");
  launch::Machine machine;
  machine.host = "here";
  machine.read_file = [&](const std::string&) { return std::optional(text); };
  machine.output_of = [](const std::vector<std::string>&) { return std::optional<std::string>(); };
  machine.resolves = [](const std::string&) { return true; };
  machine.installed = [](const std::string&) { return true; };
  std::vector<Problem> problems;
  const launch::Facts facts = launch::find_facts(machine, {.hostfile = "hosts"}, problems);
  ensure(!problems.empty() || (!facts.hosts.empty() && facts.ranks >= 1), "a job has hosts and ranks");
}

}  // namespace lockstep::fuzz
