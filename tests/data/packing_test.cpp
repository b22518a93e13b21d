// Windows with whole documents: as full as best-fit makes them, nothing lost, nothing cut.

#include "data/prepare/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

using Windows = std::vector<std::vector<std::int64_t>>;

TEST(Packing, TakesTheFullestWindowThatHasRoom) {
  // 10 tokens: 9 alone; 6 + 1 + 3, which end with their window; 5 + 1 + 4.
  EXPECT_EQ(pack_documents(std::vector<std::int64_t>{4, 9, 3, 5, 6}, 10), (Windows{{0, 3}, {1}, {2, 4}}));
  EXPECT_EQ(pack_documents(std::vector<std::int64_t>{10, 10}, 10), (Windows{{0}, {1}}));
  EXPECT_EQ(pack_documents(std::vector<std::int64_t>{1, 1, 1}, 5), (Windows{{0, 1, 2}}));
  EXPECT_THROW(pack_documents(std::vector<std::int64_t>{11}, 10), BrokenRule);
}

TEST(Packing, EveryDocumentIsInOneWindowWithRoom) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 1000; ++i) lengths.push_back(1 + i * i % 97);
  const Windows windows = pack_documents(lengths, 128);
  std::vector<std::int64_t> seen;
  for (const std::vector<std::int64_t>& window : windows) {
    std::int64_t tokens = std::ssize(window) - 1;
    for (const std::int64_t document : window) tokens += lengths[static_cast<std::size_t>(document)];
    EXPECT_LE(tokens, 128);
    seen.insert(seen.end(), window.begin(), window.end());
  }
  std::ranges::sort(seen);
  std::vector<std::int64_t> all(lengths.size());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  EXPECT_EQ(seen, all);
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  EXPECT_GT(static_cast<double>(tokens), 0.95 * 128 * static_cast<double>(windows.size()));
}

TEST(Packing, SeparatorIsATokenThatNoTextHas) {
  UsedIds used(5);
  used.add(std::vector<std::int32_t>{0, 4, 2});
  EXPECT_EQ(used.unused(), 3);
  used.add(std::vector<std::int32_t>{1, 3});
  EXPECT_THROW(used.unused(), UserError);
}

TEST(Packing, WindowsHaveDocumentsAsTheyWereWithWhatIsTaught) {
  const TempFolder folder;
  const TokenFormat format{.token_bytes = 2, .vocabulary = 100};
  const auto written = [&](TokenWriter& writer, std::vector<std::int32_t> ids, const std::vector<std::uint8_t>& mask) {
    std::vector<std::byte> packed;
    pack(ids, format, packed);
    writer.append(packed, std::ssize(ids), 0, mask);
  };
  TokenWriter documents(folder / "documents.bin");
  documents.begin_mask();
  written(documents, {1, 2, 3, /**/ 4, 5, /**/ 6, 7, 8, 9}, {1, 1, 0, /**/ 0, 1, /**/ 1, 0, 1, 1});
  TokenWriter writer(folder / "train.bin");
  writer.begin_mask();
  EXPECT_EQ(write_packed(documents.open(format), std::vector<std::int64_t>{3, 2, 4}, {.length = 6, .separator = 99}, 17, writer),
            "3 documents in 2 windows of 6 tokens, 75.0 % of which are used");
  const TokenFile file = writer.open(format);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens()));
  file.read(0, ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{1, 2, 3, 99, 4, 5, 6, 7, 8, 9, 99, 99, 99}));
  file.apply_mask(0, ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{-1, 2, -1, -1, -1, 5, -1, -1, 8, 9, -1, -1, -1}));
  EXPECT_EQ(writer.text_bytes(), 17);
}

}  // namespace
}  // namespace lockstep::data
