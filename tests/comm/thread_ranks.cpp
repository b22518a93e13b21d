// The conformance suite's ranks as threads.

#include "comm/thread/thread_world.h"
#include "support/ranks.h"

namespace lockstep::test {

void on_ranks(int ranks, const std::function<void(comm::Communicator&)>& body) { comm::run_ranks(ranks, {.timeout = 60}, body); }

}  // namespace lockstep::test
