#include <fmt/format.h>
#include <netdb.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "app/cli/process.h"
#include "app/launch/environment.h"
#include "base/shell.h"
#include "io/child.h"
#include "io/cpu_quota.h"
#include "io/file.h"
#include "lab/process.h"

namespace lockstep::launch {
namespace {

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::optional<std::string> read_file(const std::string& path) {
  try {
    return io::read_file(path);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<std::string> output_of(const std::vector<std::string>& command) {
  constexpr double seconds = 30;
  const io::ChildOutcome outcome = io::run_child(command, seconds);
  if (outcome.timed_out) throw SystemError(fmt::format("'{}' did not end within {} s", shell_words(command), seconds));
  if (outcome.status != 0) return std::nullopt;
  return outcome.out;
}

bool resolves(const std::string& host) {
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

bool installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder) / program;
    if (std::filesystem::is_regular_file(file) && access(file.c_str(), X_OK) == 0) return true;
  }
  return false;
}

// Counts what this process may run on: hardware threads, and cores, which are told apart by the threads they consist of.
void count_cpus(Machine& machine) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  std::set<std::string> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &set)) continue;
    const std::string number = std::to_string(i);
    cores.insert(read_file("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list").value_or(number));
  }
  const double granted = std::ceil(io::cpu_quota().value_or(CPU_SETSIZE));
  machine.cores = std::clamp<std::int64_t>(static_cast<std::int64_t>(granted), 1, std::max<std::int64_t>(1, std::ssize(cores)));
  machine.cpus = std::max(1, CPU_COUNT(&set));
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.variables = environment();
  machine.host = app::host_name();
  count_cpus(machine);
  machine.memory = lab::free_memory();
  machine.root = geteuid() == 0;
  machine.read_file = read_file;
  machine.output_of = output_of;
  machine.resolves = resolves;
  machine.installed = installed;
  return machine;
}

}  // namespace lockstep::launch
