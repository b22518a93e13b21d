#pragma once

// The commands as a user types them behind mpirun: the program itself, not a part of the tests.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "app/program.h"
#include "app/train_command.h"
#include "base/shell.h"
#include "support/mpi_job.h"

namespace lockstep::app {

class MpiCommand : public TrainCommand {
 protected:
  void SetUp() override {
    if (!test::has_mpirun()) GTEST_SKIP() << "mpirun is not installed (Debian: openmpi-bin)";
    // Open MPI keeps memory until its process ends: under AddressSanitizer that is no leak of ours.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    TrainCommand::SetUp();
  }
  static std::string text_of(std::vector<std::string> words) {
    words.insert(words.begin(), program());
    return shell_words(words);
  }
  /// The words of ranks with a thread each.
  std::vector<std::string> on_two(const std::string& run, std::vector<std::string> more = {}) const {
    more.emplace_back("train.threads=1");
    return words(run, more);
  }
};

}  // namespace lockstep::app
