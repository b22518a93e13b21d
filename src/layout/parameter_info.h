#pragma once

// A parameter as the layout sees it: a name, a shape, whether it decays and how it is cut.

#include <string>

#include "base/shape.h"
#include "layout/shard.h"

namespace lockstep::layout {

struct ParameterInfo {
  std::string name;  ///< global, the same in every layout and file
  Shape shape;       ///< of the whole tensor
  bool decay = false;
  int role = 0;  ///< what the model uses it for (arch::Role); opaque here
  ShardRule rule = {};
};

}  // namespace lockstep::layout
