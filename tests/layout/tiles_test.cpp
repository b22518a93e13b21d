#include "layout/tiles.h"

#include <gtest/gtest.h>

#include "layout/access_order.h"

namespace lockstep::layout {
namespace {

TEST(Tiles, AreReadAndWrittenAsInXOut) {
  EXPECT_EQ(tiles_from("1x4"), (Tiles{.in = 1, .out = 4}));
  EXPECT_EQ(tiles_from("12x1"), (Tiles{.in = 12, .out = 1}));
  EXPECT_EQ(to_string(Tiles{.in = 3, .out = 2}), "3x2");
  for (const char* text :
       {"", "4", "x", "1x", "x4", "0x4", "1x0", "-1x2", "1x4x2", "1 x4", "1x4 ", "axb", "1X4", "1x99999999999"})
    EXPECT_EQ(tiles_from(text), std::nullopt) << text;
}

TEST(Tiles, CutAtMultiplesOf256AsEvenlyAsThatGoes) {
  const auto ranges = [](std::int64_t features, int tiles) { return tile_ranges(features, tiles); };
  EXPECT_EQ(ranges(8192, 4), (std::vector<Range>{{0, 2048}, {2048, 2048}, {4096, 2048}, {6144, 2048}}));
  EXPECT_EQ(ranges(768, 2), (std::vector<Range>{{0, 256}, {256, 512}}));
  EXPECT_EQ(ranges(600, 2), (std::vector<Range>{{0, 256}, {256, 344}}));
  EXPECT_EQ(ranges(600, 100), (std::vector<Range>{{0, 256}, {256, 256}, {512, 88}}));
  EXPECT_EQ(ranges(256, 2), (std::vector<Range>{{0, 256}}));
  EXPECT_EQ(ranges(30, 30), (std::vector<Range>{{0, 30}}));
  for (const std::int64_t features : {1, 255, 257, 1000, 4096, 5001}) {
    for (int tiles = 1; tiles < 40; ++tiles) {
      std::int64_t next = 0;
      for (const Range& range : ranges(features, tiles)) {
        EXPECT_EQ(range.first, next);
        EXPECT_EQ(range.first % tile_features, 0);
        EXPECT_GT(range.count, 0);
        next = range.end();
      }
      EXPECT_EQ(next, features);
    }
  }
}

}  // namespace
}  // namespace lockstep::layout
