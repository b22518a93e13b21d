#include "parallel/stores.h"

#include "parallel/zero/resident_parameters.h"

namespace lockstep::parallel {

std::unique_ptr<ParameterStore> make_parameter_store(const ParameterMemory& memory, const Groups& groups) {
  return std::make_unique<ResidentParameters>(memory, groups.parts(groups.plan().optimizer.cut));
}

}  // namespace lockstep::parallel
