#pragma once

#include <map>
#include <set>
#include <string>

#include "comm/communicator.h"
#include "comm/mpi/mpi_world.h"

namespace lockstep::test {

extern comm::HostPlace the_place;  ///< of this process, while a case runs in it

/// What a rank does in a job; each is a case of its own.
extern const std::map<std::string, void (*)(comm::Communicator&)> cases;
extern const std::set<std::string> cases_that_wait;  ///< for 2 s

}  // namespace lockstep::test
