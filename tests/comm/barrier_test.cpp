#include <gtest/gtest.h>

#include <atomic>

#include "support/ranks.h"

namespace lockstep::test {
namespace {

using comm::Communicator;

// No rank passes a barrier before all have come.
TEST(Barrier, IsMet) {
  std::atomic<int> arrived{0};
  on_ranks(4, [&](Communicator& world) {
    for (int round = 1; round <= 50; ++round) {
      arrived.fetch_add(1);
      world.barrier();
      EXPECT_GE(arrived.load(), 4 * round);
      world.barrier();
    }
  });
}

}  // namespace
}  // namespace lockstep::test
