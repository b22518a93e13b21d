// Spans of ranks as a file, and clocks that read differently.

#include "train/report/run_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "comm/thread/thread_world.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

Json parsed(const ChromeTrace& trace) { return Json::parse(trace.text()); }

std::vector<Json> spans_named(const Json& trace, std::string_view name) {
  std::vector<Json> found;
  for (const Json& event : trace.at("traceEvents").array()) {
    if (event.at("ph").string() == "X" && event.at("name").string() == name) found.push_back(event);
  }
  return found;
}

TEST(SpanLog, KeepsWhatItHasRoomForAndCountsTheRest) {
  std::array<Span, 2> room;
  SpanLog log(room);
  log.add({SpanKind::op, "before"});
  log.turn(true);
  const Span* memory = log.spans().data();
  for (int i = 0; i < 5; ++i) const ScopedSpan span(&log, SpanKind::op, "kept");
  EXPECT_EQ(log.spans().size(), 2U);
  EXPECT_EQ(log.spans().data(), memory) << "its memory is what it was given";
  EXPECT_EQ(log.spans()[0].name, "kept");
  EXPECT_LE(log.spans()[0].start, log.spans()[0].end);
  EXPECT_EQ(log.dropped(), 3);
  log.close();
  log.turn(true);
  log.add({SpanKind::op, "behind"});
  EXPECT_TRUE(log.spans().empty());
  EXPECT_EQ(room[1].name, "kept") << "room that was given back is not touched";
}

TEST(TraceOfRank, ExchangesThatOverlapHaveRowsOfTheirOwn) {
  std::array<Span, 10> room;
  SpanLog log(room);
  log.turn(true);
  log.add({SpanKind::pass, "forward", 1, 4, {2, 1}});
  log.add({SpanKind::exchange, "all_reduce", 1, 3, {64}});
  log.add({SpanKind::exchange, "all_gather", 2, 4, {64}});
  log.add({SpanKind::exchange, "send", 3, 5, {64}});
  log.add({SpanKind::disk, "read", 2, 3, {4096}});
  const Json trace = parsed(trace_of_rank(log, 3, {.shift = 15, .origin = 5}));
  std::map<std::string, std::int64_t> rows;
  for (const char* name : {"forward 2 of chunk 1", "all_reduce", "all_gather", "send", "read"}) {
    const std::vector<Json> found = spans_named(trace, name);
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0].at("pid").integer(), 3);
    rows[name] = found[0].at("tid").integer();
  }
  EXPECT_EQ(rows["all_reduce"], rows["send"]);
  EXPECT_EQ((std::set{rows["forward 2 of chunk 1"], rows["send"], rows["all_gather"], rows["read"]}).size(), 4U);
  EXPECT_EQ(spans_named(trace, "read")[0].at("ts").number(), 12e6);
  EXPECT_EQ(spans_named(trace, "read")[0].at("dur").number(), 1e6);
  EXPECT_EQ(spans_named(trace, "read")[0].at("args").at("bytes").integer(), 4096);
}

TEST(RunTrace, RanksOfAProcessHaveOneClock) {
  comm::run_ranks(3, {.timeout = 60}, [](comm::Communicator& world) { EXPECT_EQ(clock_shift(world), 0); });
}

TEST(RunTrace, HasTheFirstStepsOfAllRanksAndWhatTheyExchange) {
  const TempFolder folder;
  const io::Path file = folder / "trace.json";
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    std::array<Span, 100> room;
    SpanLog spans(room);
    Log log(stderr, Level::critical);
    RunTrace trace(file, 2, spans, world, log);
    for (std::int64_t step = 5; step < 9; ++step) {
      trace.met();
      EXPECT_TRUE(world.rank() != 0 || io::exists(file) == (step >= 7)) << step;
      trace.step_begins(step);
      float value = 1;
      world.all_reduce(view(std::span(&value, 1), Shape{1}), comm::Reduction::sum).wait();
      trace.step_taken(step, {}, {});
    }
    trace.finished({});
  });
  const Json trace = Json::parse(io::read_file(file));
  EXPECT_EQ(trace.at("otherData").at("first_step").integer(), 5);
  EXPECT_EQ(trace.at("otherData").at("dropped").integer(), 0);
  std::set<std::int64_t> ranks;
  for (const Json& event : spans_named(trace, "all_reduce")) {
    ranks.insert(event.at("pid").integer());
    EXPECT_EQ(event.at("args").at("bytes").integer(), 4);
    EXPECT_GE(event.at("dur").number(), 0);
  }
  EXPECT_EQ(ranks, (std::set<std::int64_t>{0, 1}));
  for (const char* step : {"step 5", "step 6"}) EXPECT_EQ(spans_named(trace, step).size(), 2U);
  EXPECT_EQ(spans_named(trace, "all_reduce").size(), 4U);
  EXPECT_TRUE(spans_named(trace, "step 7").empty());
}

// Viewers drop spans before 0.
TEST(RunTrace, StartsAtZeroWhicheverRankIsFirst) {
  for (const int late : {0, 1}) {
    const TempFolder folder;
    const io::Path file = folder / "trace.json";
    comm::run_ranks(2, {}, [&](comm::Communicator& world) {
      std::array<Span, 100> room;
      SpanLog spans(room);
      Log log(stderr, Level::critical);
      RunTrace trace(file, 1, spans, world, log);
      if (world.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      trace.step_begins(0);
      float value = 1;
      world.all_reduce(view(std::span(&value, 1), Shape{1}), comm::Reduction::sum).wait();
      trace.step_taken(0, {}, {});
      trace.finished({});
    });
    const Json trace = Json::parse(io::read_file(file));
    double first = 1e30;
    for (const Json& event : trace.at("traceEvents").array()) {
      if (event.at("ph").string() == "X") first = std::min(first, event.at("ts").number());
    }
    EXPECT_EQ(first, 0) << late;
    EXPECT_FALSE(std::signbit(first)) << late;
    std::map<std::int64_t, double> steps;
    for (const Json& event : spans_named(trace, "step 0")) steps[event.at("pid").integer()] = event.at("ts").number();
    EXPECT_GT(steps.at(late), 15e3) << late;
  }
}

TEST(RunTrace, SaysWhatItDroppedAndLeavesNoFileWhereItCannotBeWritten) {
  const TempFolder folder;
  const io::Path out = folder / "log.txt";
  std::FILE* text = std::fopen(out.c_str(), "w");
  const auto traced = [&](const io::Path& file) {
    std::array<Span, 1> room;
    SpanLog spans(room);
    const std::unique_ptr<comm::Communicator> alone = comm::make_self();
    Log log(text);
    RunTrace trace(file, 1, spans, *alone, log);
    trace.step_begins(0);
    trace.spent("first", 0);
    trace.step_taken(0, {}, {});
    trace.finished({});
  };
  traced(folder / "trace.json");
  traced(folder / "none" / "trace.json");
  std::fclose(text);
  EXPECT_EQ(Json::parse(io::read_file(folder / "trace.json")).at("otherData").at("dropped").integer(), 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
  const std::string said = io::read_file(out);
  EXPECT_NE(said.find("1 spans behind that found no room"), std::string::npos) << said;
  EXPECT_NE(said.find("there is no trace: "), std::string::npos) << said;
}

}  // namespace
}  // namespace lockstep::train
