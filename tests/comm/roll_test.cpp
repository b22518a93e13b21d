// What the ranks of a host know of each other when one of them ends in the middle of something.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/timer.h"
#include "comm/errors.h"
#include "comm/host/host_communicator.h"

namespace lockstep::comm::host {
namespace {

class RollTest : public testing::Test {
 protected:
  std::vector<std::max_align_t> memory_ = std::vector<std::max_align_t>(Roll::bytes(3) / sizeof(std::max_align_t) + 8);
  std::byte* at_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory_.data()) + 63) / 64 * 64);
  Roll roll_{at_, 3};
};

TEST_F(RollTest, TheFirstReasonCounts) {
  EXPECT_FALSE(roll_.aborted());
  EXPECT_EQ(roll_.reason(), "");
  roll_.abort("the disk is gone");
  roll_.abort("rank 2 waits");
  EXPECT_TRUE(roll_.aborted());
  EXPECT_EQ(roll_.reason(), "the disk is gone");
}

// Its first word says that a reason is being written.
TEST_F(RollTest, ARankThatIsKilledInAbortKeepsNoRankWaiting) {
  new (at_) std::atomic<std::uint32_t>(1);
  EXPECT_TRUE(roll_.aborted());
  const double since = now_seconds();
  EXPECT_EQ(roll_.reason(), "a rank ended the run, and did not come to say why");
  EXPECT_LT(now_seconds() - since, 20);
}

TEST_F(RollTest, AFailureHasItsReasonLater) {
  roll_.announce_failure(1);
  EXPECT_TRUE(roll_.aborted());
  EXPECT_FALSE(roll_.begin_move(0));
  EXPECT_EQ(roll_.reason(), "rank 1 failed, and did not come to say why");
  roll_.abort("rank 1 ended with an error: the disk is gone");
  EXPECT_EQ(roll_.reason(), "rank 1 ended with an error: the disk is gone");
}

TEST_F(RollTest, ARankThatStopsInAMoveIsWaitedForSoLong) {
  ASSERT_TRUE(roll_.begin_move(1));
  roll_.abort("rank 0 failed");
  int looks = 0;
  const double since = now_seconds();
  roll_.await_no_moves(0, 0.05, [&] { ++looks; });
  EXPECT_GE(now_seconds() - since, 0.05);
  EXPECT_GT(looks, 0);
  roll_.set(1, Phase::failed);
  roll_.await_no_moves(0, 1e9);
}

/// One address space.
class OneMemory final : public SharedMemory {
 public:
  std::uint64_t token(const std::byte* address) const override { return reinterpret_cast<std::uint64_t>(address); }
  std::byte* find(int, std::uint64_t token) const override { return reinterpret_cast<std::byte*>(token); }
  std::byte* allocate(std::size_t) override { return nullptr; }
};

// Rank 1 is in the middle of writing into rank 0's buffer when the run ends: rank 0 must not take it away yet.
TEST_F(RollTest, NoRankWritesIntoTheBufferOfAWaitThatThrew) {
  for (const bool polls : {false, true}) {
    std::fill(memory_.begin(), memory_.end(), std::max_align_t{});
    std::vector<std::max_align_t> board_memory(Board::bytes(2) / sizeof(std::max_align_t) + 8);
    auto* board_at = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(board_memory.data()) + 63) / 64 * 64);
    OneMemory memory;
    Rank rank{.number = 0, .roll = roll_, .memory = memory};
    HostCommunicator world(rank, "world", Board(board_at, 2), {0, 1}, 0);
    std::vector<float> x(10);
    Request request = world.all_reduce(view(std::span(x), Shape{10}), Reduction::sum);
    ASSERT_TRUE(roll_.begin_move(1));
    roll_.abort("rank 2 failed");
    std::atomic<bool> moved = false;
    const std::jthread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      moved = true;
      roll_.end_move(1);
    });
    if (polls) {
      EXPECT_THROW(request.poll(), RunAborted);
    } else {
      EXPECT_THROW(request.wait(), RunAborted);
    }
    EXPECT_TRUE(moved);
  }
}

}  // namespace
}  // namespace lockstep::comm::host
