#pragma once

// Where a job can run: scheduler, hosts and what each host has, found out from the environment. Nothing here asks the machine
// itself: what there is to know comes in as a `Machine`, so that environments recorded elsewhere can be tried.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lockstep::launch {

/// What a machine can be asked.
struct Machine {
  std::map<std::string, std::string> variables;  // the environment
  std::string host;                              // its own name
  std::int64_t cores = 1;  // as mpirun counts them (hardware threads of one core are one), and as many as the job may keep busy
  std::int64_t cpus = 1;   // hardware threads
  std::optional<std::int64_t> memory;  // bytes that are free for the job; nothing: not known
  bool root = false;
  std::function<std::optional<std::string>(const std::string& path)> read_file;  // nothing: it cannot be read
  /// What a command prints; nothing when it is not there or fails. Throws SystemError when it does not end in time.
  std::function<std::optional<std::string>(const std::vector<std::string>& command)> output_of;
  std::function<bool(const std::string& host)> resolves;
  std::function<bool(const std::string& program)> installed;
};

/// The machine that this program runs on.
Machine this_machine();

enum class Scheduler : std::uint8_t { none, pbs, slurm };

/// What the user asked for.
struct Request {
  std::optional<std::int64_t> ranks = std::nullopt;
  std::optional<std::int64_t> per_host = std::nullopt;
  std::string hostfile = {};
  std::optional<std::int64_t> hosts = std::nullopt;   // the first so many of the job's hosts
  std::optional<std::int64_t> spares = std::nullopt;  // so many of the job's last hosts take the place of hosts that go
  std::set<std::string> left_out = {};                // hosts of the job that get no ranks
  std::string cpu_bind = {};                          // as the launcher takes it; empty: what is usual
  bool oversubscribe = false;                         // more ranks are allowed than there is room for
  bool again = false;                                 // a job that failed is started again
};

/// The least that a rank takes in memory, before its model: measured, 28 to 31 MiB under Open MPI 4.1.
inline constexpr std::int64_t rank_bytes = std::int64_t{32} << 20;

/// Whether a host of that name is the machine itself.
bool is_named(const Machine& machine, const std::string& host);

struct Facts {
  std::string machine;  // by its host's name (known_machines)
  Scheduler scheduler = Scheduler::none;
  std::string hostfile;                  // the file that names the hosts; empty: none does
  std::vector<std::string> hosts;        // hosts that get ranks, each once
  std::vector<std::string> spare_hosts;  // the job's other hosts
  std::int64_t job_hosts = 0;            // all of the job's
  std::int64_t devices = 1;              // devices of every host that ranks may be started for: GPUs, else slots or cores
  std::int64_t gpus = 0;                 // of every host
  std::int64_t cpus_per_rank = 1;        // hardware threads; 1 also when unknown
  std::int64_t ranks = 1;                // to start: hosts x per_host
  std::int64_t per_host = 1;
  std::string cpu_bind;        // as it was asked for
  bool again = false;          // a job that failed is started again
  bool some_left_out = false;  // `hosts` are not the first of the job's

  std::int64_t job_devices() const { return job_hosts * devices; }
};

/// Adds to `problems` all that is wrong or contradicts itself; the facts count only when nothing was added.
Facts find_facts(const Machine& machine, const Request& request, std::vector<Problem>& problems);

/// The hosts of a list as Slurm writes it, "nid[001-003,007],login1"; empty when it is malformed or names more than `most`.
std::vector<std::string> expand_node_list(std::string_view list, std::int64_t most = 100'000);

}  // namespace lockstep::launch
