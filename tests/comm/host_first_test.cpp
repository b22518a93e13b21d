// Which ranks of several hosts add on their hosts first. That they then do it right is for the conformance suite, which mpirun
// runs (tests/comm_mpi).

#include "comm/mpi/host_first.h"

#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

int fits(const std::vector<int>& hosts, std::vector<int> members = {}) {
  if (members.empty()) {
    for (int r = 0; r < static_cast<int>(hosts.size()); ++r) members.push_back(r);
  }
  return comm::HostFirstCommunicator::fits(members, hosts);
}

TEST(HostFirst, FitsAlignedPowersOfTwo) {
  EXPECT_EQ(fits({0, 0, 1, 1}), 2);
  EXPECT_EQ(fits({0, 0, 1, 1, 2, 2}), 2);
  EXPECT_EQ(fits({7, 7, 7, 7, 3, 3, 3, 3}), 4);
  EXPECT_EQ(fits({0, 0, 1, 1, 2, 2}, {4, 5, 0, 1}), 2);
}

TEST(HostFirst, DoesNotFitWhatTheTreeWouldCutThrough) {
  EXPECT_EQ(fits({0, 0}), 0);              // one host
  EXPECT_EQ(fits({0, 1, 2}), 0);           // a rank on each
  EXPECT_EQ(fits({0, 0, 0, 1, 1, 1}), 0);  // no power of two
  EXPECT_EQ(fits({0, 0, 1}), 0);           // uneven
  EXPECT_EQ(fits({0, 0, 1, 2}), 0);
  EXPECT_EQ(fits({0, 1, 0, 1}), 0);        // in turns
  EXPECT_EQ(fits({0, 0, 1, 1, 0, 0}), 0);  // a host comes again
  EXPECT_EQ(fits({0, 0, 1, 1}, {1, 2}), 0);
}

}  // namespace
}  // namespace lockstep::test
