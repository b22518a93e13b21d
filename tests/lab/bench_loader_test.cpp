#include "lab/data_loading/bench_loader.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::lab {
namespace {

// ml-engineering measured 5.388, 3.900, 1.333, 0.839, 0.875 s with 0 to 4 workers at these sizes: nothing beats the least.
TEST(BenchLoader, NoMeasurementBeatsTheLeastSeconds) {
  const LoaderBenchOptions sizes{.items = 1000, .batch = 100, .item_seconds = 0.005, .compute_seconds = 0.2};
  const double measured[] = {5.388, 3.900, 1.333, 0.839, 0.875};
  const double least[] = {5, 3.2, 0.7, 0.5, 0.5};
  for (int workers = 0; workers < 5; ++workers) {
    EXPECT_NEAR(least_loading_seconds(sizes, workers), least[workers], 1e-9) << workers;
    EXPECT_LE(least[workers], measured[workers]) << workers;
  }
}

TEST(BenchLoader, CountsWhatIsNotComputation) {
  LoaderBenchOptions options{
      .workers = {0, 2}, .items = 20, .batch = 5, .item_seconds = 0.002, .compute_seconds = 0.005, .rounds = 2, .positions = 16};
  int heard = 0;
  options.progress = [&] { ++heard; };
  const std::vector<LoaderRow> rows = bench_loader(options);
  EXPECT_EQ(heard, 4);
  ASSERT_EQ(rows.size(), 2U);
  for (const LoaderRow& row : rows) {
    ASSERT_EQ(row.seconds.size(), 2U);
    for (const double seconds : row.seconds) EXPECT_GE(seconds, least_loading_seconds(options, row.workers));
    for (std::size_t round = 0; round < 2; ++round) EXPECT_LE(row.waited[round], row.seconds[round] + 4 * 0.005);
  }
}

TEST(BenchLoader, SaysSecondsAndWaitingForEachNumberOfWorkers) {
  const LoaderBenchOptions options{.items = 1000, .batch = 100, .compute_seconds = 0.2, .rounds = 3};
  const std::vector<LoaderRow> rows{{0, {5.5, 5.3, 5.388}, {5.4, 5.4, 5.4}}, {4, {0.875, 0.8, 0.9}, {0.01, 0.01, 0.01}}};
  const std::string text = to_text(options, rows);
  EXPECT_NE(text.find("           0     5.388     5.300 - 5.500     5.000  540.0 ms\n"), std::string::npos) << text;
  EXPECT_NE(text.find("           4     0.875     0.800 - 0.900     0.500    1.0 ms\n"), std::string::npos) << text;
  const Json json = to_json(options, rows);
  EXPECT_EQ(json.at("rows").array()[1].at("workers").integer(), 4);
  EXPECT_EQ(json.at("rows").array()[0].at("seconds").number(), 5.388);
}

TEST(BenchLoader, RefusesWhatCannotBeMeasured) {
  const LoaderBenchOptions wrong{
      .workers = {-1, 65}, .items = 30, .batch = 20, .item_seconds = -1, .compute_seconds = 61, .rounds = 0};
  std::string text;
  for (const Problem& problem : check(wrong)) text += problem.message + "\n";
  for (const char* said :
       {"--workers -1: must be from 0 to 64", "--workers 65: must be", "--items 30: must be a multiple of --batch 20",
        "--item-ms -1000: must be", "--compute-ms 61000: must be", "--rounds 0: must be"})
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  const LoaderBenchOptions none{.batch = 0};
  EXPECT_EQ(check(none).size(), 1U);
  EXPECT_THROW(bench_loader(none), UserError);
}

}  // namespace
}  // namespace lockstep::lab
