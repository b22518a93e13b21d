#include "app/start/dist_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "app/cli/process.h"
#include "app/launch/known_machines.h"
#include "base/number_text.h"
#include "comm/text.h"
#include "device/choose_device.h"

namespace lockstep::app {
namespace {

std::string_view or_none(const std::string& text) { return text.empty() ? "None" : std::string_view(text); }

// Processors of this machine, whatever of them the calling thread may use.
int processors() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

}  // namespace

std::vector<std::string> Standing::nodes() const {
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    if (std::ranges::find(names, host) == names.end()) names.push_back(host);
  }
  return names;
}

int Standing::ranks_per_node() const {
  const auto count = static_cast<int>(nodes().size());
  return (ranks() + count - 1) / count;
}

Standing find_standing(comm::Communicator& world, std::string_view device, std::string_view transport,
                       const std::function<const char*(const char*)>& variable) {
  const auto value = [&](const char* name) -> std::string {
    const char* text = variable(name);
    return text != nullptr ? text : "";
  };
  Standing standing{.rank = world.rank(),
                    .hosts = comm::all_texts(world, host_name()),
                    .device = device,
                    .transport = transport,
                    .hostfile = value("HOSTFILE"),
                    .launch_command = value("DIST_LAUNCH"),
                    .machine = launch::machine_of(host_name(), value("PBS_O_HOST")),
                    .devices = number_from<int>(value("NGPU_PER_HOST")).value_or(device == "cpu" ? processors() : 0),
                    .job_devices = number_from<int>(value("NGPUS")).value_or(0)};
  if (!value("SLURM_JOB_ID").empty()) {
    standing.scheduler = "SLURM";
  } else if (!value("PBS_JOBID").empty() || !value("PBS_NODEFILE").empty()) {
    standing.scheduler = "PBS";
    if (standing.hostfile.empty()) standing.hostfile = value("PBS_NODEFILE");
  }
  return standing;
}

std::string rank_line(const Standing& s) {
  return fmt::format("[device='{}'][rank={}/{}][local_rank={}/{}][node={}/{}]", s.device, s.rank, s.ranks() - 1, s.local_rank(),
                     s.ranks_per_node() - 1, s.node(), s.nodes().size() - 1);
}

std::string dist_info(const Standing& s) {
  const std::vector<std::string> nodes = s.nodes();
  const std::string& host = s.hosts.at(static_cast<std::size_t>(s.rank));
  const int devices = static_cast<int>(nodes.size()) * s.devices_per_node();
  const std::array<std::pair<std::string_view, std::string>, 18> facts{{
      {"DEVICE", std::string(s.device)},
      {"DEVICE_ID", fmt::format("{}:{}", s.device, s.local_rank())},
      {"DISTRIBUTED_BACKEND", std::string(s.transport)},
      {"GPUS_PER_NODE", std::to_string(s.devices_per_node())},
      {"HOSTS", fmt::format("['{}']", fmt::join(nodes, "', '"))},
      {"HOSTFILE", std::string(or_none(s.hostfile))},
      {"HOSTNAME", host},
      {"LOCAL_RANK", std::to_string(s.local_rank())},
      {"MACHINE", s.machine.empty() ? host : s.machine},
      {"NUM_NODES", std::to_string(nodes.size())},
      {"NGPUS", std::to_string(devices)},
      {"NGPUS_AVAILABLE", std::to_string(std::max(devices, s.job_devices))},
      {"NODE_ID", std::to_string(s.node())},
      {"RANK", std::to_string(s.rank)},
      {"SCHEDULER", s.scheduler},
      {"WORLD_SIZE_TOTAL", std::to_string(s.ranks())},
      {"WORLD_SIZE_IN_USE", std::to_string(s.ranks() - s.servers)},
      {"LAUNCH_CMD", std::string(or_none(s.launch_command))},
  }};
  std::string text = "[dist_info]:";
  for (const auto& [key, value] : facts) text += fmt::format("\n  • {}={}", key, value);
  return text;
}

Standing standing_of(Session& session) {
  return find_standing(session.world(), name_of(session.runtime().device().kind), name_of(session.transport()),
                       [](const char* name) { return std::getenv(name); });
}

Standing log_ranks(Session& session, Log& log, int servers) {
  Standing standing = standing_of(session);
  standing.servers = servers;
  for (int r = 0; r < standing.ranks(); ++r) log.info(rank_line(standing.of(r)));
  log.info(dist_info(standing));
  return standing;
}

}  // namespace lockstep::app
