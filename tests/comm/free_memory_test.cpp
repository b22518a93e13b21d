#include "comm/free_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/ranks.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(FreeMemoryOfRanks, ThoseOfAHostAreAddedUp) {
  on_ranks(3, [](comm::Communicator& world) {
    const auto shortage = [&](std::int64_t each, std::int64_t free) {
      return comm::memory_shortage(world, each, io::FreeMemory{free, "a test"});
    };
    EXPECT_FALSE(shortage(kGiB, 4 * kGiB).has_value());
    EXPECT_FALSE(shortage(kGiB, 3 * kGiB + (kGiB >> 4)).has_value());
    // What a rank declares is not quite all that it takes.
    const auto little = shortage(kGiB, 3 * kGiB);
    ASSERT_TRUE(little.has_value());
    EXPECT_EQ(little->ranks, 3);
    EXPECT_LT(little->needed, 3 * kGiB + (kGiB >> 4));
    const auto much = shortage(kGiB, (world.rank() == 1 ? 2 : 9) * kGiB);  // the least that a rank sees
    ASSERT_TRUE(much.has_value());
    EXPECT_EQ(much->free.bytes, 2 * kGiB);
    EXPECT_TRUE(much->text().starts_with("the 3 ranks of host ")) << much->text();
    EXPECT_NE(much->text().find(" need 3.05 GiB, and 2.00 GiB of its memory are free (a test)"), std::string::npos)
        << much->text();
    EXPECT_FALSE(comm::memory_shortage(world, 1000 * kGiB, std::nullopt).has_value());
    EXPECT_NO_THROW(comm::demand_free_memory(world, 1, "a model", "none"));
    EXPECT_THROW(comm::demand_free_memory(world, std::int64_t{1} << 50, "a model", "none"), UserError);
  });
}

}  // namespace
}  // namespace lockstep::test
