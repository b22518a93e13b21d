#include "io/spill_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "support/temp_folder.h"

namespace lockstep::io {
namespace {

constexpr std::size_t block = SpillFile::block;

/// Blocks of memory that begin where a block may.
class Blocks {
 public:
  explicit Blocks(std::size_t blocks, unsigned seed = 0) : memory_((blocks + 1) * block) {
    const std::size_t misfit = reinterpret_cast<std::uintptr_t>(memory_.data()) % block;
    bytes_ = std::span(memory_).subspan(misfit == 0 ? 0 : block - misfit, blocks * block);
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>((seed + 1) * (i / 7 + i));
  }
  std::span<std::byte> bytes() const { return bytes_; }
  bool operator==(const Blocks& other) const { return std::ranges::equal(bytes_, other.bytes_); }

 private:
  std::vector<std::byte> memory_;
  std::span<std::byte> bytes_;
};

constexpr std::size_t most = SpillFile::most_moves;
const SpillWays all_ways[] = {{true, true}, {true, false}, {false, true}, {false, false}};

TEST(SpillFile, GivesBackWhatWasWrittenInEveryWay) {
  const TempFolder folder;
  for (const SpillWays& ways : all_ways) {
    SpillFile file(folder.path(), most * most * block, ways);
    EXPECT_TRUE(ways.ring || file.way().find("pread and pwrite (io_uring: not asked for)") == 0) << file.way();
    EXPECT_TRUE(ways.direct || file.way().find("(O_DIRECT: not asked for)") != std::string::npos) << file.way();
    std::vector<std::unique_ptr<Blocks>> written;
    std::vector<int> moves;
    for (unsigned i = 0; i < most; ++i) {
      written.push_back(std::make_unique<Blocks>(1 + i, i));
      moves.push_back(file.begin_write(most * block * i, written.back()->bytes()));
    }
    for (const int move : moves) file.finish(move);
    moves.clear();
    std::vector<std::unique_ptr<Blocks>> read;
    for (unsigned i = 0; i < most; ++i) {
      read.push_back(std::make_unique<Blocks>(1 + i, 99));
      moves.push_back(file.begin_read(most * block * i, read.back()->bytes()));
    }
    std::ranges::reverse(moves);  // in any order
    for (const int move : moves) file.finish(move);
    for (std::size_t i = 0; i < most; ++i) EXPECT_TRUE(*read[i] == *written[i]) << file.way();
  }
}

TEST(SpillFile, IsZeroAtFirst) {
  const TempFolder folder;
  SpillFile file(folder.path(), 3);  // a block
  const Blocks read(1, 5);
  file.finish(file.begin_read(0, read.bytes()));
  EXPECT_TRUE(std::ranges::all_of(read.bytes(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(SpillFile, LeavesNothingInItsFolder) {
  const TempFolder folder;
  const SpillFile first(folder.path(), block), second(folder.path(), block);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SpillFile, EndsWhatIsUnderWay) {
  const TempFolder folder;
  const Blocks from(512, 3), to(512, 5);
  {
    SpillFile file(folder.path(), 512 * block);
    file.finish(file.begin_write(0, from.bytes()));
    file.begin_read(0, to.bytes());
  }
  EXPECT_TRUE(from == to);
}

std::string refused(const Path& folder, std::uint64_t bytes) {
  try {
    const SpillFile file(folder, bytes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(SpillFile, SaysWhatAFolderLacks) {
  const TempFolder folder;
  EXPECT_NE(refused(folder / "missing", block).find("cannot make a file for offloaded state in "), std::string::npos);
  EXPECT_NE(refused("/proc", block).find("cannot make a file for offloaded state in /proc"), std::string::npos);
  const std::string full = refused(folder.path(), std::uint64_t{1} << 43);
  EXPECT_NE(full.find("offloaded state needs 8.00 TiB in " + folder.path().string() + ": "), std::string::npos) << full;
  EXPECT_NE(full.find(" are free"), std::string::npos) << full;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SpillFile, MovesWholeBlocksAsManyAsItSays) {
  const TempFolder folder;
  const Blocks memory(2);
  SpillFile file(folder.path(), most * block);
  EXPECT_THROW(file.begin_read(1, memory.bytes()), BrokenRule);
  EXPECT_THROW(file.begin_read(0, memory.bytes().first(block / 2)), BrokenRule);
  EXPECT_THROW(file.begin_read(0, memory.bytes().subspan(8, block)), BrokenRule);
  std::vector<int> moves;
  for (std::size_t i = 0; i < most; ++i) moves.push_back(file.begin_read(block * i, memory.bytes().first(block)));
  EXPECT_THROW(file.begin_read(0, memory.bytes()), BrokenRule);
  for (const int move : moves) file.finish(move);
  EXPECT_THROW(file.finish(moves.front()), BrokenRule);
}

// Bytes behind the end cannot be had.
TEST(SpillFile, AMoveThatFailsIsAnError) {
  const TempFolder folder;
  for (const SpillWays& ways : all_ways) {
    SpillFile file(folder.path(), block, ways);
    const Blocks memory(2);
    const int move = file.begin_read(0, memory.bytes());
    EXPECT_THROW(file.finish(move), SystemError) << file.way();
    file.finish(file.begin_read(0, memory.bytes().first(block)));
  }
}

}  // namespace
}  // namespace lockstep::io
