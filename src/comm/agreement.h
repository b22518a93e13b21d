#pragma once

// What all ranks must have in common, compared at the start.

#include <string>

#include "comm/communicator.h"

namespace lockstep::comm {

/// Throws UserError on every rank whose text differs from rank 0's, naming the first line that does and both ranks' version of
/// it. `what`: of the texts, for people ("settings"). Collective.
void demand_agreement(Communicator& world, const std::string& what, const std::string& text);

}  // namespace lockstep::comm
