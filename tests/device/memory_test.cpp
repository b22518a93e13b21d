#include "device/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "base/error.h"

namespace lockstep {
namespace {

class HostMemorySizes : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, HostMemorySizes,
                         testing::Values(1, 100, 4096, 5000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 9 << 20));

TEST_P(HostMemorySizes, IsAlignedZeroedAndWritable) {
  const std::size_t size = GetParam();
  Memory memory = host_memory().allocate(size);
  ASSERT_EQ(memory.size(), size);
  const std::size_t alignment = size >= (2 << 20) ? 2 << 20 : 64;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % alignment, 0U);
  EXPECT_TRUE(std::all_of(memory.data(), memory.data() + size, [](std::byte b) { return b == std::byte{0}; }));
  std::fill(memory.data(), memory.data() + size, std::byte{7});
  Memory moved = std::move(memory);
  EXPECT_EQ(moved.data()[size - 1], std::byte{7});
  EXPECT_EQ(memory.data(), nullptr);
}

TEST(HostMemory, NothingIsNoAllocation) { EXPECT_EQ(host_memory().allocate(0).data(), nullptr); }

TEST(HostMemory, SaysWhenThereIsNone) {
  EXPECT_THROW(host_memory().allocate(std::size_t{1} << 60), SystemError);
  EXPECT_THROW(host_memory().allocate(std::numeric_limits<std::size_t>::max() - 5), SystemError);
  try {
    host_memory().allocate(std::size_t{1} << 46);  // the kernel would promise it
    ADD_FAILURE() << "this machine has 64 TiB";
  } catch (const SystemError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("no memory: 64.00 TiB are needed in one piece, and ")) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
