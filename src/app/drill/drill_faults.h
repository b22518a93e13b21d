#pragma once

// The faults of a drill: read from words, drawn by a seed, and written as words again.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/report/drill_fault.h"

namespace lockstep::app {

/// Faults as the command line has them: RANK@STEP, RANKxFACTOR@STEP, TENSOR@STEP, HOST@STEP. Without @STEP they come in the
/// middle of the copy.
struct FaultWords {
  std::vector<std::string> kill = {}, stop = {}, slow = {}, flip = {}, nan = {}, cut = {};
  std::optional<std::int64_t> full_disk = {};
  std::optional<std::int64_t> random = {};  ///< so many more faults are drawn
  std::int64_t seed = 1;
};

/// What there is to be disturbed.
struct DrillGround {
  int trainers = 1;
  std::int64_t steps = 0, first_save = 1;
  std::vector<std::string> tensors;  ///< empty: parameter servers have the weights
  std::vector<std::string> hosts;
  int ranks_per_host = 1;
};

/// The faults, in the order of the options. Step 0 stands for the middle of the copy. Adds what is wrong with the words alone to
/// `problems`.
std::vector<train::DrillFault> read_faults(const FaultWords& words, std::vector<Problem>& problems);
/// Gives the faults their step and their ranks, and adds what cannot be played to `problems`.
void place_faults(std::vector<train::DrillFault>& faults, const DrillGround& ground, std::vector<Problem>& problems);
/// Draws faults that come behind the first checkpoint; equal arguments give equal faults. Faults of hosts are not among them.
std::vector<train::DrillFault> drawn_faults(std::int64_t count, std::int64_t seed, const DrillGround& ground);

/// The option that plays the fault: "--kill 1@15".
std::string option_of(const train::DrillFault& fault);
/// What the fault does: "rank 1 gets a SIGKILL".
std::string about(const train::DrillFault& fault);

}  // namespace lockstep::app
