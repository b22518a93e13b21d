#pragma once

// Which kinds of parallelism a model and a machine call for: a table of nine cases that people decide by before they measure
// anything. The planner's search is what measures.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::planner {

struct AdviceQuestion {
  double parameters = 0;
  double largest_layer = 0;  ///< bytes
  double activations = 0;    ///< bytes, of a device
  double device_memory = 0;  ///< bytes
  std::int64_t devices = 1;  ///< of a node
  std::int64_t nodes = 1;
  bool fast_inside = true, fast_between = true;  ///< connections of a node's devices, and of nodes
};

struct Advice {
  std::string setting, condition;  ///< which row of the table this is
  std::string answer;
  std::string reason;                ///< with the figures
  std::string settings;              ///< of a run, that try the answer first
  std::vector<std::string> besides;  ///< rules that hold too
};
/// A model fits where 18 bytes a parameter and the activations do, a layer where twice its bytes do.
Advice advise(const AdviceQuestion& question);

}  // namespace lockstep::planner
