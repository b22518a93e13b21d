#include "parallel/stores.h"

#include "parallel/zero/resident_parameters.h"
#include "parallel/zero/sharded_parameters.h"

namespace lockstep::parallel {

std::unique_ptr<ParameterStore> make_parameter_store(const ParameterMemory& memory, const Groups& groups, Stream& stream) {
  const layout::CutOver over = groups.plan().parameters.cut;
  if (memory.sharded) return std::make_unique<ShardedParameters>(memory, groups.parts(over), stream);
  return std::make_unique<ResidentParameters>(memory, groups.parts(groups.plan().optimizer.cut));
}

}  // namespace lockstep::parallel
