#include "data/token_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/support.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

constexpr TokenFormat small{.token_bytes = 2, .vocabulary = 65};

std::vector<std::int32_t> read(const TokenFile& file, std::int64_t first, std::size_t count) {
  std::vector<std::int32_t> ids(count);
  file.read(first, ids);
  return ids;
}

TEST(TokenFile, ReadsUint16) {
  const Folder folder;
  const TokenFile file(folder.write_ids("train.bin", counting(1000, 65)), small);
  EXPECT_EQ(file.tokens(), 1000);
  EXPECT_EQ(file.format().dtype(), "uint16");
  EXPECT_EQ(read(file, 63, 4), (std::vector<std::int32_t>{63, 64, 0, 1}));
  EXPECT_EQ(read(file, 999, 1), (std::vector<std::int32_t>{24}));
  EXPECT_THROW(read(file, 999, 2), BrokenRule);
}

TEST(TokenFile, ReadsUint32) {
  const Folder folder;
  const TokenFile file(folder.write_ids<std::uint32_t>("train.bin", {0, 65536, 99999}), {.token_bytes = 4, .vocabulary = 100000});
  EXPECT_EQ(file.format().dtype(), "uint32");
  EXPECT_EQ(read(file, 0, 3), (std::vector<std::int32_t>{0, 65536, 99999}));
}

TEST(TokenFile, ReadsEightBytesBehindAHeader) {
  const Folder folder;
  std::vector<std::int64_t> ids(5003);
  for (std::size_t i = 3; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  const TokenFormat format{.token_bytes = 8, .vocabulary = 6000, .header_bytes = 24};
  const TokenFile file(folder.write_ids("t.bin", ids), format);
  EXPECT_EQ(file.tokens(), 5000);
  EXPECT_EQ(read(file, 1, 4999)[4998], 5002);
  ids[3000] = std::int64_t{1} << 40;
  const TokenFile other(folder.write_ids("o.bin", ids), {.token_bytes = 8, .vocabulary = 6000, .header_bytes = 24 + 8 * 4000});
  EXPECT_EQ(other.tokens(), 1000);
  const std::string text = user_error([&] { TokenFile(folder.path("o.bin"), format); });
  EXPECT_TRUE(contains(text, "token 2997 has id 1099511627776")) << text;
}

TEST(TokenFile, WidthFollowsTheVocabulary) {
  EXPECT_EQ(TokenFormat::bytes_for(65536), 2);
  EXPECT_EQ(TokenFormat::bytes_for(65537), 4);
}

TEST(TokenFile, Moves) {
  const Folder folder;
  TokenFile one(folder.write_ids("a.bin", counting(10, 65)), small);
  TokenFile two(folder.write_ids("b.bin", counting(20, 65)), small);
  two = std::move(one);
  const TokenFile three(std::move(two));
  EXPECT_EQ(three.tokens(), 10);
  EXPECT_EQ(read(three, 9, 1), (std::vector<std::int32_t>{9}));
}

TEST(TokenFile, OneOfAnotherRankIsKnownButNotRead) {
  const TokenFile file =
      TokenFile::elsewhere("/far/train.bin", {.token_bytes = 4, .vocabulary = 100000}, 12, "/far/train.mask.bin");
  EXPECT_EQ(file.tokens(), 12);
  EXPECT_EQ(file.path(), "/far/train.bin");
  EXPECT_EQ(file.format().vocabulary, 100000);
  EXPECT_TRUE(file.masked());
  EXPECT_FALSE(TokenFile::elsewhere("val.bin", {}, 12, "").masked());
  std::vector<std::int32_t> ids(3);
  EXPECT_THROW(file.read(0, ids), BrokenRule);
}

TEST(TokenFile, RefusesMissingEmptyAndTruncated) {
  const Folder folder;
  EXPECT_TRUE(contains(user_error([&] { TokenFile(folder.path("none.bin"), small); }), "none.bin"));
  EXPECT_TRUE(contains(user_error([&] { TokenFile(folder.path(), small); }), "name a file"));
  EXPECT_TRUE(contains(user_error([&] { TokenFile(folder.write("e.bin", ""), small); }), "empty"));
  EXPECT_TRUE(contains(user_error([&] { TokenFile(folder.write("odd.bin", "abc"), small); }), "3 bytes"));
  EXPECT_TRUE(contains(user_error([&] { TokenFile(folder.write("six.bin", "abcdef"), {.token_bytes = 4}); }), "truncated"));
}

TEST(TokenFile, NamesThePositionOfAnIdAboveTheVocabulary) {
  const Folder folder;
  std::vector<std::uint16_t> ids = counting(10000, 65);
  ids[7777] = 65;
  const TokenFile file(folder.write_ids("train.bin", ids), small);
  EXPECT_EQ(read(file, 7000, 777).size(), 777U);
  const std::string text = user_error([&] { read(file, 7770, 20); });
  EXPECT_TRUE(contains(text, "token 7777 has id 65")) << text;
  EXPECT_TRUE(contains(text, "vocabulary of 65")) << text;
}

TEST(TokenFile, IdsThatDoNotFitAreAboveTheVocabulary) {
  const Folder folder;
  const std::string path = folder.write_ids<std::uint32_t>("train.bin", {0, 0xFFFFFFFF});
  const std::string text = user_error([&] { TokenFile(path, {.token_bytes = 4, .vocabulary = 100000}); });
  EXPECT_TRUE(contains(text, "token 1 has id 4294967295")) << text;
}

TEST(TokenFile, AMaskTakesTargetsAway) {
  const Folder folder;
  TokenFile file(folder.write_ids("train.bin", counting(10000, 65)), small);
  std::vector<std::int32_t> targets = read(file, 5, 3);
  EXPECT_EQ(file.apply_mask(5, targets), 3);
  EXPECT_EQ(targets, (std::vector<std::int32_t>{5, 6, 7}));
  std::string mask(10000, '\1');
  mask[6] = mask[9000] = '\0';
  mask[9500] = '\2';
  const std::string path = folder.write("train.mask.bin", mask);
  file.set_mask(path, std::make_unique<io::MappedFile>(path));
  EXPECT_TRUE(file.masked());
  EXPECT_EQ(file.apply_mask(5, targets), 2);
  EXPECT_EQ(targets, (std::vector<std::int32_t>{5, -1, 7}));
  targets = read(file, 0, 9400);
  EXPECT_EQ(file.apply_mask(0, targets), 9398);
  EXPECT_EQ(targets[9000], -1);
  const std::string text = user_error([&] {
    targets = read(file, 9000, 600);
    file.apply_mask(9000, targets);
  });
  EXPECT_TRUE(contains(text, "train.mask.bin: byte 9500 is 2")) << text;
  EXPECT_TRUE(contains(user_error([&] {
                         const std::string shorter = folder.write("short.bin", "abc");
                         file.set_mask(shorter, std::make_unique<io::MappedFile>(shorter));
                       }),
                       "has 3 bytes, but"));
  EXPECT_EQ(mask_name("train-00001-of-00004.bin"), "train-00001-of-00004.mask.bin");
}

}  // namespace
}  // namespace lockstep::data
