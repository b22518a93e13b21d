#pragma once

// Which parameter store a rank has: its plan says.

#include <functional>
#include <memory>

#include "parallel/groups.h"
#include "parallel/parameter_memory.h"

namespace lockstep::parallel {

/// Makes a store over `memory` that copies on `stream`; the arguments outlive it. What its leases need of other ranks goes
/// through the groups. So every rank of a group takes the same leases.
using StoreFactory =
    std::function<std::unique_ptr<ParameterStore>(const ParameterMemory& memory, const Groups& groups, Stream& stream)>;

std::unique_ptr<ParameterStore> make_parameter_store(const ParameterMemory& memory, const Groups& groups, Stream& stream);

}  // namespace lockstep::parallel
