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
  const std::string text = answer_of(options, rows).text();
  EXPECT_NE(text.find("           0    5.388  5.300  5.500    5.000  540.0 ms\n"), std::string::npos) << text;
  EXPECT_NE(text.find("           4    0.875  0.800  0.900    0.500    1.0 ms\n"), std::string::npos) << text;
  const Answer json = answer_of(options, rows);
  EXPECT_EQ(json.at("rows").array()[1].at("workers").integer(), 4);
  EXPECT_EQ(json.at("rows").array()[0].at("seconds").number(), 5.388);
}

}  // namespace
}  // namespace lockstep::lab
