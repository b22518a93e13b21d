#pragma once

// Compares a dump with the oracle's step, and finds the wrong way of computing that explains the differences.

#include <cstdint>
#include <string>
#include <vector>

#include "lab/against/step.h"

namespace lockstep::lab::against {

/// A tensor in one rank's file that differs from the oracle's.
struct Finding {
  std::string tensor, rank;
  double off = 0, allowed = 0;  ///< relative to the right tensor's size; `allowed`: what rounding explains
  std::string worst;            ///< the element with the largest difference, and both values
};

struct Cause {
  std::string word, sentence;
  double excess = 0;                   ///< the largest difference from the recomputed values, in units of the bound
  std::vector<std::string> only = {};  ///< the tensors that are wrong, where others are right in spite of this way
  bool rest_open = false;              ///< whether tensors behind it cannot be recomputed
};

/// A fault of the passes, or of the update; or of both, where no gradients tell them apart.
struct Fault {
  std::vector<Finding> wrong;  ///< in the order of computation
  std::vector<Cause> causes;   ///< ways that explain the whole fault, the likeliest first
  std::vector<Cause> nearest;  ///< without a cause: ways that explain most; excess is the share that they do not explain
  std::size_t tried = 0;
};

struct Judgement {
  std::size_t judged = 0;  ///< tensors
  double worst = 0;        ///< the largest difference of tensors that agree, in units of the bound
  std::vector<Fault> faults = {};
  std::vector<std::string> remarks = {};
};

Judgement judge(const Step& step, Team& team);

}  // namespace lockstep::lab::against
