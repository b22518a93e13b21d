#include "lab/data_loading/bench_io.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "comm/thread/thread_world.h"
#include "support/temp_folder.h"

namespace lockstep::lab {
namespace {

TEST(BenchIo, EveryWayReadsTheWholeFileAndLeavesNothing) {
  const TempFolder folder;
  for (const int ranks : {1, 2}) {
    std::vector<IoRow> rows;
    comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
      const std::vector<IoRow> own = bench_io({.folder = folder.path(),
                                               .bytes = 2 * (64 * 16 + 1),
                                               .samples = 2,
                                               .positions = 16,
                                               .ways = {"files", "readers"},
                                               .workers = 2,
                                               .rounds = 2},
                                              world);
      if (world.rank() == 0) rows = own;
    });
    ASSERT_EQ(rows.size(), 2U);
    for (const IoRow& row : rows) {
      EXPECT_EQ(row.ranks, ranks);
      EXPECT_EQ(row.bytes, 64 * 16 * 2);
      ASSERT_EQ(row.seconds.size(), 2U);
      for (const double seconds : row.seconds) EXPECT_GT(seconds, 0);
      for (const double seconds : row.raw) EXPECT_GT(seconds, 0);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchIo, SaysRatesAndShares) {
  const std::vector<IoRow> rows{{"files", 4, 2'000'000'000, {1, 2, 4}, {0.9, 1, 1}}};
  EXPECT_DOUBLE_EQ(rows[0].rate(), 1);
  EXPECT_DOUBLE_EQ(rows[0].share(), 0.5);
  const std::string text = answer_of({}, rows).text();
  EXPECT_NE(text.find("files        4    2.000  1.000     2.000    50 %\n"), std::string::npos) << text;
  EXPECT_EQ(answer_of({}, rows).at("rows").array()[0].at("of_raw").number(), 0.5);
}

TEST(BenchIo, RefusesWhatCannotBeMeasured) {
  std::string text;
  for (const Problem& problem : check({.bytes = 65, .samples = 2, .positions = 16, .readers = 3}, 4))
    text += problem.message + "\n";
  for (const char* said :
       {"--bytes 65: must be even, and hold a batch of 4 ranks (256 bytes)", "--readers 3: 4 ranks do not divide by it"})
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  comm::run_ranks(1, {.timeout = 60},
                  [&](comm::Communicator& world) { EXPECT_THROW(bench_io({.readers = 2}, world), UserError); });
}

}  // namespace
}  // namespace lockstep::lab
