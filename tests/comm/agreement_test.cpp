#include "comm/agreement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

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

template <class Error>
void expect_thrown_everywhere(const std::function<void()>& throwing, const std::string& text) {
  on_ranks(3, [&](comm::Communicator& world) {
    try {
      comm::together(world, [&] {
        if (world.rank() > 0) throwing();
      });
      ADD_FAILURE() << "rank " << world.rank() << " goes on";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), text);
    }
    world.barrier();  // the ranks are in step afterwards
  });
}

TEST(Together, AnErrorOfOneRankIsThrownOnAll) {
  expect_thrown_everywhere<UserError>([] { throw UserError(std::vector<Problem>{{"one", "mend it"}, {"two", ""}}); },
                                      "rank 1: one\n  -> mend it\ntwo");
  expect_thrown_everywhere<SystemError>([] { throw SystemError("the disk"); }, "rank 1: the disk");
  expect_thrown_everywhere<SystemError>([] { throw std::out_of_range("far"); }, "rank 1: far");
  expect_thrown_everywhere<BrokenRule>([] { throw BrokenRule("a rule"); }, "rank 1: a rule");
}

TEST(Together, NothingIsThrownWhereAllIsWell) {
  std::atomic<int> calls = 0;
  on_ranks(3, [&](comm::Communicator& world) { comm::together(world, [&] { ++calls; }); });
  EXPECT_EQ(calls, 3);
  const auto self = comm::make_self();
  EXPECT_THROW(comm::together(*self, [] { throw std::out_of_range("far"); }), std::out_of_range);
}

TEST(Together, RankZerosErrorIsSaidAsItIs) {
  on_ranks(2, [](comm::Communicator& world) {
    try {
      comm::together(world, [] { throw UserError("here", "there"); });
    } catch (const UserError& error) {
      EXPECT_EQ(error.problems().front().message, "here");
    }
  });
}

TEST(Attempts, WhatFailsIsKeptAndThrownOnAllAtTheMeeting) {
  on_ranks(3, [](comm::Communicator& world) {
    comm::Attempts attempts;
    int later = 0;
    attempts.run([&] {
      if (world.rank() == 2) throw UserError("a full disk", "");
    });
    attempts.run([&] { ++later; });
    EXPECT_EQ(later, world.rank() == 2 ? 0 : 1);
    try {
      attempts.meet(world);
      ADD_FAILURE() << "rank " << world.rank() << " goes on";
    } catch (const UserError& error) {
      EXPECT_EQ(error.problems().front().message, "rank 2: a full disk");
    }
    world.barrier();
  });
}

}  // namespace
}  // namespace lockstep::test
