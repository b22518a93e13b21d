#pragma once

// The command that starts the ranks of a job, and the environment that the job leaves for a shell.

#include <string>
#include <utility>
#include <vector>

#include "app/launch/environment.h"

namespace lockstep::launch {

struct Job {
  std::vector<std::pair<std::string, std::string>> environment;  // set for the launcher
  std::vector<std::pair<std::string, std::string>> told;         // the job's facts, in the environment of the ranks
  std::vector<std::string> launcher;  // mpiexec, mpirun or srun with its options; empty: the ranks are threads of one process
  std::vector<std::string> words;     // all of the command, launcher included
  std::vector<std::string> notes;     // what the user should know about it
};

/// `program` is this program's path and `command` what every rank runs of it ("train", ...; not empty). Adds to `problems`
/// what the machine lacks for it.
Job make_job(const Facts& facts, const Machine& machine, const std::string& program, const std::vector<std::string>& command,
             std::vector<Problem>& problems);

/// The job as one pastes it into a shell.
std::string shell_text(const Job& job);

/// The file that keeps the job's environment for a shell, as ezpz does: ~/.pbsenv or ~/.slurmenv; empty without a scheduler or a
/// home.
std::string environment_file(const Facts& facts, const Machine& machine);
/// "export NAME='value'" lines, sorted: the scheduler's variables that files may keep (app/folder/manifest.h), and what the job's
/// ranks are told.
std::string environment_text(const Facts& facts, const Machine& machine, const Job& job);

}  // namespace lockstep::launch
