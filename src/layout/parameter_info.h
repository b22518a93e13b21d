#pragma once

// A parameter as the layout sees it: a name, a shape and whether it decays.

#include <string>

#include "tensor/shape.h"

namespace lockstep::layout {

struct ParameterInfo {
  std::string name;  ///< global, the same in every layout and file
  Shape shape;
  bool decay = false;
  int role = 0;  ///< what the model uses it for (arch::Role); opaque here
};

}  // namespace lockstep::layout
