#pragma once

// Which kinds of parallelism a model and a machine call for, by a table of nine cases: rules of thumb, before anything is
// measured. The planner's search computes times instead.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::planner {

struct AdviceQuestion {
  double parameters = 0;
  double largest_layer = 0;  ///< bytes
  double activations = 0;    ///< bytes on one device
  double device_memory = 0;  ///< bytes
  std::int64_t devices = 1;  ///< of a node
  std::int64_t nodes = 1;
  bool fast_inside = true, fast_between = true;  ///< whether links between a node's devices, and between nodes, are fast
};

struct Advice {
  std::string setting, condition;  ///< the row of the table
  std::string answer;
  std::string reason;                ///< with the figures
  std::string settings;              ///< settings of a run that try the answer first
  std::vector<std::string> besides;  ///< rules that hold as well
};
/// A model fits where 18 bytes a parameter and the activations fit. A layer fits where twice its bytes fit.
Advice advise(const AdviceQuestion& question);

}  // namespace lockstep::planner
