#include "comm/agreement.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/ranks.h"

namespace lockstep::test {
namespace {

TEST(Agreement, EqualTextsPass) {
  on_ranks(3, [](comm::Communicator& world) {
    EXPECT_NO_THROW(comm::demand_agreement(world, "settings", "a = 1\nb = 2\n"));
    EXPECT_NO_THROW(comm::demand_agreement(world, "settings", ""));
  });
}

TEST(Agreement, TheFirstDifferenceIsNamed) {
  const auto told = [](const std::string& first, const std::string& other) {
    try {
      on_ranks(3, [&](comm::Communicator& world) {
        comm::demand_agreement(world, "settings", world.rank() == 1 ? other : first);
        world.barrier();
      });
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(told("a = 1\nb = 2\nc = 3", "a = 1\nb = 5\nc = 4").find("rank 0 with \"b = 2\", rank 1 with \"b = 5\""),
            std::string::npos);
  EXPECT_NE(told("a = 1\nb = 2", "a = 1").find("rank 0 with \"b = 2\", rank 1 with \"(nothing)\""), std::string::npos);
  EXPECT_NE(told("a = 1", "a = 1\nb = 2").find("rank 0 with \"(nothing)\", rank 1 with \"b = 2\""), std::string::npos);
}

}  // namespace
}  // namespace lockstep::test
