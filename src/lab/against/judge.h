#pragma once

// Compares a dump with the oracle's step, and finds the wrong way that explains what is wrong.

#include <cstdint>
#include <string>
#include <vector>

#include "lab/against/step.h"

namespace lockstep::lab::against {

/// A tensor that is off, in one rank's file.
struct Finding {
  std::string tensor, rank;
  double off = 0, allowed = 0;  ///< relative to the right tensor's size; by rounding
  std::string worst;            ///< the element that is farthest off, with both values
};

struct Cause {
  std::string word, sentence;
  double excess = 0;                   ///< of the recomputed values, in units of the bound
  std::vector<std::string> only = {};  ///< where others are right in spite of it: the tensors that it is in
  bool rest_open = false;              ///< what comes behind cannot be recomputed
};

/// What is wrong in the passes, or in the update; or in both, where no gradients tell them apart.
struct Fault {
  std::vector<Finding> wrong;  ///< in the order of computation
  std::vector<Cause> causes;   ///< that explain all of it, the likeliest first
  std::vector<Cause> nearest;  ///< without a cause: those that explain most; excess is the share that they do not
  std::size_t tried = 0;
};

struct Judgement {
  std::size_t judged = 0;  ///< tensors
  double worst = 0;        ///< of those that agree, in units of the bound
  std::vector<Fault> faults = {};
  std::vector<std::string> remarks = {};
};

Judgement judge(const Step& step, Team& team);

}  // namespace lockstep::lab::against
