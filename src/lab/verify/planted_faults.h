#pragma once

// Faults that real systems have had, planted in ranks by `demo --break` and by tests of verify.

#include <string_view>
#include <vector>

#include "lab/verify/faulty_world.h"

namespace lockstep::lab {

struct PlantedFault {
  std::string_view name, about;
  std::string_view layout;  ///< words of a layout that has what the fault breaks
  Fault (*make)();
};

const std::vector<PlantedFault>& planted_faults();
/// The fault of that name. Throws BrokenRule for a name that planted_faults() lacks.
const PlantedFault& planted_fault(std::string_view name);

}  // namespace lockstep::lab
