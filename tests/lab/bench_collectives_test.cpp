#include "lab/collectives/bench_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "device/runtime.h"
#include "lab/collectives/collective_trial.h"

namespace lockstep::lab {
namespace {

using comm::Collective;

std::vector<Collective> all_collectives() { return {tried_collectives().begin(), tried_collectives().end()}; }

/// Rank 0 of some that does nothing, or nothing but adding to the first element, and says that it did.
class Faulty final : public comm::Communicator {
 public:
  Faulty(int size, float added) : size_(size), added_(added) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  void attach(Stream&, Team&) override {}
  MemorySource& window(MemorySource& usual) override { return usual; }

 private:
  comm::Request issue(const comm::Operation& operation) override {
    if (operation.out && operation.out.dtype == DType::f32) elements<float>(operation.out)[0] += added_;
    return {};
  }
  std::unique_ptr<comm::Communicator> make_group(int, std::vector<int>) override { return comm::make_self(); }

  int size_;
  float added_;
};

CollectiveReport measured(int ranks, const CollectiveBenchOptions& options) {
  CollectiveReport report;
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    const auto runtime = open_runtime({}, {.threads = 1});
    CollectiveReport mine;
    bench_collectives(options, *runtime, world, mine);
    if (world.rank() == 0) report = mine;
  });
  return report;
}

TEST(BenchCollectives, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 2), 1.0);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 1), 0.0);
  for (const Collective op : {Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all}) {
    EXPECT_DOUBLE_EQ(bus_factor(op, 4), 0.75);
  }
  for (const Collective op :
       {Collective::reduce, Collective::broadcast, Collective::gather, Collective::scatter, Collective::send}) {
    EXPECT_DOUBLE_EQ(bus_factor(op, 4), 1.0);
  }
}

TEST(BenchCollectives, TheFloorReadsEveryInputAndWritesEveryOutputOnce) {
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::all_reduce, 100, 4), 800);
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::all_to_all, 100, 4), 800);
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::send, 100, 4), 800);
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::reduce, 100, 4), 500);
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::all_gather, 100, 4), 500);
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::reduce_scatter, 100, 4), 500);
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::broadcast, 100, 4), 400);
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::gather, 100, 4), 200);
  EXPECT_DOUBLE_EQ(floor_bytes(Collective::scatter, 100, 4), 200);
}

TEST(BenchCollectives, PayloadsDoubleUntilHalfOfTheMemoryIsTaken) {
  const std::int64_t mib = 1 << 20, gib = mib << 10;
  const auto payloads = default_payloads({Collective::all_reduce}, 2, 1000 * gib);
  EXPECT_EQ(payloads.size(), 20U);
  EXPECT_EQ(payloads.front(), 32 << 10);
  EXPECT_EQ(payloads.back(), 16 * gib);
  EXPECT_EQ(default_payloads({Collective::all_reduce}, 2, 16 * mib).back(), 4 * mib);
  EXPECT_EQ(default_payloads({Collective::all_reduce, Collective::all_to_all}, 2, 16 * mib).back(), 2 * mib);
  EXPECT_EQ(default_payloads({Collective::all_reduce}, 64, 1), std::vector<std::int64_t>{32 << 10});
}

TEST(BenchCollectives, PayloadsThatCannotBeAreAllNamed) {
  try {
    check_payloads({.ops = {Collective::all_reduce}, .bytes = {8, 64, 4096}}, 4, 1000);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("--bytes 8: 4 ranks need at least one float each"), std::string::npos) << text;
    EXPECT_NE(text.find("--bytes 4096: the buffers of 4 ranks do not fit"), std::string::npos) << text;
    EXPECT_EQ(text.find("--bytes 64:"), std::string::npos) << text;
  }
}

TEST(BenchCollectives, EveryOperationAndPayloadGetsARow) {
  for (const int ranks : {1, 3}) {
    const CollectiveReport report = measured(ranks, {.ops = all_collectives(), .bytes = {60, 5000}, .trials = 3, .warmups = 1});
    ASSERT_EQ(report.rows.size(), 2 * tried_collectives().size() - 1);  // a barrier has no payload
    EXPECT_FALSE(report.stopped);
    for (const CollectiveRow& row : report.rows) {
      EXPECT_EQ(row.ranks, ranks);
      EXPECT_EQ(row.bytes % (4L * ranks), 0);
      EXPECT_EQ(row.slowest.size(), 3U);
      EXPECT_EQ(row.bandwidth.size(), 3U);
      EXPECT_GT(row.median_seconds(), 0);
      EXPECT_GE(row.algbw() * std::ranges::max(row.slowest), 0.99 * static_cast<double>(row.bytes));
    }
  }
}

TEST(BenchCollectives, StopsAfterATrialAndKeepsWhatThereIs) {
  int asked = 0;
  CollectiveReport report;
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    const auto runtime = open_runtime({}, {.threads = 1});
    CollectiveBenchOptions options{.ops = {Collective::all_reduce}, .bytes = {64, 128}, .trials = 4, .warmups = 1};
    if (world.rank() == 0) options.stopped = [&asked] { return ++asked == 8; };  // 5 trials of the first payload, 3 more
    CollectiveReport mine;
    bench_collectives(options, *runtime, world, mine);
    EXPECT_TRUE(mine.stopped);
    if (world.rank() == 0) report = mine;
  });
  ASSERT_EQ(report.rows.size(), 2U);
  EXPECT_EQ(report.rows[0].slowest.size(), 4U);
  EXPECT_EQ(report.rows[1].slowest.size(), 2U);
  EXPECT_NE(answer_of(report).text().find("results so far"), std::string::npos);
}

TEST(BenchCollectives, AWrongResultIsNotTimed) {
  Faulty world(2, 0);
  const auto runtime = open_runtime({}, {.threads = 1});
  CollectiveReport report;
  try {
    bench_collectives({.ops = {Collective::all_gather}, .bytes = {64}}, *runtime, world, report);
    FAIL() << "accepted";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("all_gather of 16 elements over 2 ranks: element 0 on rank 0 is 0, not 1"),
              std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(report.rows.empty());
}

TEST(BenchCollectives, LatencyComparesTheSameBytes) {
  comm::run_ranks(2, {.timeout = 60}, [](comm::Communicator& world) {
    const auto runtime = open_runtime({}, {.threads = 1});
    const LatencyReport report = bench_latency(80'007, 10, *runtime, world);
    EXPECT_EQ(report.bytes, 80'000);
    EXPECT_GT(report.large, 0);
    EXPECT_GT(report.small, 0);
    EXPECT_NE(answer_of(report, 2).text().find("   10  "), std::string::npos);
  });
}

TEST(BenchCollectives, ALatencyThatCameFromWrongValuesIsRefused) {
  Faulty world(1, 1);
  const auto runtime = open_runtime({}, {.threads = 1});
  EXPECT_THROW(bench_latency(400, 10, *runtime, world), SystemError);
}

TEST(BenchCollectives, TheTableHasTheSeedsFormat) {
  CollectiveReport report;
  report.ranks = 8;
  report.warmups = 5;
  report.trials = 20;
  report.memory_bandwidth = 50e9;
  report.elapsed = 47.2;
  report.rows.push_back({Collective::all_reduce, 8, 32768, {1e-3}, {0.48e9}});
  report.rows.push_back({Collective::all_reduce, 8, std::int64_t{1} << 34, {1}, {47.32e9}});
  const std::string text = answer_of(report).text();
  for (const char* line :
       {"The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):\n\n| payload |    busbw   |    algbw   |",
        "|   32KiB |   0.84GBps |   0.48GBps |     6.7Gbps |     3.8Gbps |      1 % |",
        "|   16GiB |  82.81GBps |  47.32GBps |   662.5Gbps |   378.6Gbps |    550 % |",
        "Legend: 1KiB = 2**10 Bytes, 1MiB = 2**20 Bytes, 1GiB = 2**30 Bytes\n",
        "anywhere from 5 to 1600Gbps seen, 400Gbps or more wanted", "Elapsed time: 0:00:47\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_NE(stability_of(report).text().find("|       1 |   0.84GBps |   0.48GBps |"), std::string::npos);
}

TEST(BenchCollectives, FormulasStandBesideWhatWasMeasured) {
  CollectiveReport report{.peer = "", .environment = "", .ranks = 5, .hosts = 1, .memory_bandwidth = 1e9};
  report.rows.push_back({Collective::broadcast, 5, 8'000'000, {0.02}, {0.4e9}});
  report.rows.push_back({Collective::send, 5, 8'000'000, {0.008}, {1e9}});
  report.rows.push_back({Collective::barrier, 5, 0, {3e-6, 1e-6, 2e-6}, {0, 0, 0}});
  const std::string text = answer_of(report).text();
  EXPECT_NE(text.find("at the 1.00GBps of send: 32.000 ms in 1 message, 11.000 ms in 8 messages, 8.375 ms in 64 messages, "
                      "measured 20.000 ms"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("A barrier over 5 ranks (0 warmups / 0 trials): 2.0 us, the median of the slowest rank (1.0 - 3.0)"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("each rank's share"), std::string::npos) << text;
  report.hosts = 3;
  report.rows.push_back({Collective::all_reduce, 5, 8'000'000, {0.008}, {1e9}});
  EXPECT_NE(answer_of(report).text().find("is 0.80GBps"), std::string::npos) << answer_of(report).text();  // 1.6 x 2 / 4
}

TEST(BenchCollectives, JsonHasTheKeysOfTheOthers) {
  CollectiveReport report{.peer = "lockstep 1 thread", .environment = ""};
  report.rows.push_back({Collective::all_reduce, 2, 4096, {3e-6, 1e-6, 2e-6}, {1e9, 1e9, 1e9}});
  const std::string line =
      R"({"peer":"lockstep 1 thread","op":"all_reduce","ranks":2,"bytes":4096,"us":2.0,"algbw":2.048,"busbw":2.048,"trials":3})";
  EXPECT_EQ(answer_of(report).json(), line + "\n");
}

}  // namespace
}  // namespace lockstep::lab
