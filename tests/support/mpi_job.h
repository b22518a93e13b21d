#pragma once

// Programs as ranks that an MPI's mpirun starts, Open MPI's unless said otherwise, from inside a test.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace lockstep::test {

inline constexpr const char* open_mpi = "mpirun --oversubscribe --bind-to none";
inline constexpr const char* mpich = "mpiexec.mpich";

inline bool has_mpirun(const std::string& launcher = "mpirun") {
  return std::system(("command -v " + launcher + " >/dev/null 2>&1").c_str()) == 0;
}

inline constexpr int too_long = 124;  // the exit code of a job that had to be ended

struct JobOutcome {
  int code;
  std::string output;  ///< standard output and error of all ranks
};

// Settings for AddressSanitizer. Open MPI keeps memory until its process ends, which is no leak of ours. UCX, by which MPICH
// sends, must not patch mmap().
inline constexpr const char* job_environment =
    "ASAN_OPTIONS=detect_leaks=0 UCX_MEM_MMAP_HOOK_MODE=none OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";

/// Runs a command of the shell on `ranks` processes, however many cores there are; after two minutes it is ended.
inline JobOutcome run_job(int ranks, const std::string& command, const std::string& launcher = open_mpi) {
  const std::string line =
      std::string(job_environment) + " timeout -k 5 120 " + launcher + " -n " + std::to_string(ranks) + " " + command + " 2>&1";
  std::FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  JobOutcome outcome{-1, {}};
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace lockstep::test
