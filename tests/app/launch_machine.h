#pragma once

// Machines as they were met elsewhere: what a process saw there, written down.

#include <algorithm>
#include <set>
#include <string>

#include "app/launch/environment.h"

namespace lockstep::launch {

struct Recorded {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> files;                 // path: content
  std::map<std::vector<std::string>, std::string> outputs;  // what commands print
  std::set<std::vector<std::string>> stuck;                 // commands that do not end
  std::set<std::string> programs{"mpirun", "mpiexec"};
  std::set<std::string> unknown_hosts;
  std::string host = "box";
  std::int64_t cores = 4, cpus = 8;
  std::optional<std::int64_t> memory;
  bool root = false;

  /// Valid while this lives.
  Machine machine() const {
    Machine out;
    out.variables = variables;
    out.host = host;
    out.cores = cores;
    out.cpus = cpus;
    out.memory = memory;
    out.root = root;
    out.read_file = [this](const std::string& path) { return look_up(files, path); };
    out.output_of = [this](const std::vector<std::string>& command) {
      if (stuck.count(command) != 0) throw SystemError(command[0] + " did not end");
      return look_up(outputs, command);
    };
    out.resolves = [this](const std::string& name) { return unknown_hosts.count(name) == 0; };
    out.installed = [this](const std::string& program) { return programs.count(program) != 0; };
    return out;
  }

 private:
  template <class Key>
  static std::optional<std::string> look_up(const std::map<Key, std::string>& map, const Key& key) {
    const auto found = map.find(key);
    return found == map.end() ? std::nullopt : std::optional(found->second);
  }
};

inline const std::vector<std::string> kNvidia{"nvidia-smi", "-L"};
inline const std::string kFourGpus =
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2)\n"
    "GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-3)\nGPU 3: NVIDIA A100-SXM4-40GB (UUID: GPU-4)\n";

/// Two hosts of Polaris: 32 cores, 64 hardware threads and 4 GPUs each.
inline Recorded polaris() {
  Recorded r;
  r.variables = {{"PBS_JOBID", "2034.polaris-pbs"}, {"PBS_NODEFILE", "/var/spool/pbs/aux/2034.polaris-pbs"}};
  r.files = {{"/var/spool/pbs/aux/2034.polaris-pbs", "x3005c0s13b0n0.hsn\nx3005c0s13b1n0.hsn\n"}};
  r.outputs = {{kNvidia, kFourGpus}};
  r.host = "x3005c0s13b0n0";
  r.cores = 32;
  r.cpus = 64;
  return r;
}

/// Two hosts of Perlmutter: 4 GPUs each; no scontrol.
inline Recorded perlmutter() {
  Recorded r;
  r.variables = {{"SLURM_JOB_ID", "881"},
                 {"SLURM_JOB_NODELIST", "nid[001240-001241]"},
                 {"SLURM_JOB_CPUS_PER_NODE", "128(x2)"},
                 {"SLURM_GPUS_ON_NODE", "4"}};
  r.programs.insert("srun");
  r.host = "nid001240";
  r.cores = 64;
  r.cpus = 128;
  return r;
}

}  // namespace lockstep::launch
