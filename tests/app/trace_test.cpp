// log.trace, as a user types it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class TraceCommand : public TrainCommand {
 protected:
  Json trace(const std::string& run) const { return Json::parse(file(run + "/trace.json")); }
  /// Names of a trace's spans by rank and row.
  static std::map<std::pair<std::int64_t, std::string>, std::set<std::string>> rows(const Json& trace) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::string> names;
    std::map<std::pair<std::int64_t, std::string>, std::set<std::string>> rows;
    for (const Json& event : trace.at("traceEvents").array()) {
      if (event.at("name").string() == "thread_name")
        names[{event.at("pid").integer(), event.at("tid").integer()}] = event.at("args").at("name").string();
    }
    for (const Json& event : trace.at("traceEvents").array()) {
      if (event.at("ph").string() != "X") continue;
      const std::int64_t rank = event.at("pid").integer();
      rows[{rank, names.at({rank, event.at("tid").integer()})}].insert(event.at("name").string());
    }
    return rows;
  }
  /// Spans of a row lie inside each other or one behind the other.
  static void expect_nested(const Json& trace) {
    struct Ends {
      std::int64_t start, end;
    };
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Ends>> rows;
    const auto ns = [](const Json& micro) { return std::llround(micro.number() * 1e3); };
    for (const Json& event : trace.at("traceEvents").array()) {
      if (event.at("ph").string() != "X") continue;
      const std::int64_t start = ns(event.at("ts"));
      rows[{event.at("pid").integer(), event.at("tid").integer()}].push_back({start, start + ns(event.at("dur"))});
    }
    for (auto& [row, spans] : rows) {
      std::ranges::sort(spans,
                        [](const Ends& a, const Ends& b) { return a.start != b.start ? a.start < b.start : a.end > b.end; });
      std::vector<std::int64_t> open;
      for (const Ends& span : spans) {
        constexpr std::int64_t rounding = 2;
        while (!open.empty() && open.back() <= span.start + rounding) open.pop_back();
        EXPECT_LE(span.end, open.empty() ? span.end : open.back() + rounding) << row.first << " " << row.second;
        open.push_back(span.end);
      }
    }
  }
};

TEST_F(TraceCommand, WritesNoneUnlessAsked) {
  ASSERT_EQ(lockstep(words("plain")).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "plain" / "trace.json"));
}

TEST_F(TraceCommand, RanksOfAPipelineComputeAndTalk) {
  ASSERT_EQ(lockstep(words("plain", {"--ranks", "2", "parallel.pp=2", "train.threads=1", "optimizer.gas=2"})).code, 0);
  const Outcome traced = lockstep(words(
      "traced", {"--ranks", "2", "parallel.pp=2", "train.threads=1", "optimizer.gas=2", "log.trace=true", "log.trace_steps=5"}));
  ASSERT_EQ(traced.code, 0) << traced.err;
  EXPECT_NE(traced.out.find("Wrote a trace of 5 steps to "), std::string::npos) << traced.out;
  EXPECT_EQ(losses("traced"), losses("plain"));
  const Json all = trace("traced");
  expect_nested(all);
  auto shown = rows(all);
  for (const std::int64_t rank : {0, 1}) {
    for (const char* name : {"step 0", "step 4", "forward 1 of chunk 0", "backward 0 of chunk 0", "linear forward",
                             "sums, norm and update", "wait for batches", "sample and evaluation", "checkpoint"})
      EXPECT_TRUE(shown[std::pair(rank, "compute")].contains(name)) << rank << " " << name;
    EXPECT_FALSE(shown[std::pair(rank, "compute")].contains("step 5"));
    EXPECT_FALSE(shown[std::pair(rank, "communication")].empty());
  }
  EXPECT_TRUE(shown[std::pair(1, "compute")].contains("head and loss 0 of chunk 0"));
  EXPECT_TRUE(shown[std::pair(1, "compute")].contains("waiting: receive"));
}

TEST_F(TraceCommand, ARunThatEndsBeforeHasTheStepsThatItDid) {
  const Outcome traced = lockstep(words("short", {"log.trace=true", "memory.offload_optimizer=nvme",
                                                  "memory.nvme_path=" + folder_.path().string(), "train.max_iters=3"}));
  ASSERT_EQ(traced.code, 0) << traced.err;
  EXPECT_EQ(trace("short").at("otherData").at("steps").integer(), 3);
  auto shown = rows(trace("short"));
  EXPECT_EQ(shown[std::pair(0, "disk")], (std::set<std::string>{"read", "write"}));
  EXPECT_TRUE(shown[std::pair(0, "compute")].contains("waiting: disk read"));
}

TEST_F(TraceCommand, WorkersThatDoNotWaitForEachOtherAreTracedToo) {
  const Outcome traced = lockstep(words("async", {"--ranks", "3", "train.backend=ps", "parallel.ps=async", "log.trace=true",
                                                  "log.trace_steps=3", "train.threads=1"}));
  ASSERT_EQ(traced.code, 0) << traced.err;
  auto shown = rows(trace("async"));
  for (const std::int64_t rank : {0, 1}) EXPECT_TRUE(shown[std::pair(rank, "compute")].contains("step 2")) << rank;
}

TEST_F(TraceCommand, HasRoomForAllThatLayoutsTell) {
  const std::vector<std::vector<std::string>> layouts{
      {"train.threads=1", "memory.offload_optimizer=nvme", "memory.offload_params=nvme", "memory.offload_activations=nvme",
       "memory.nvme_path=" + folder_.path().string()},
      {"--ranks", "2", "train.threads=1", "numerics.canonical=true", "parallel.tp=2", "parallel.sequence=true"},
      {"--ranks", "2", "train.threads=1", "parallel.cp=2", "parallel.context=ring", "memory.recompute=full"},
      {"--ranks", "2", "train.threads=1", "memory.zero=3", "memory.tiles=2x2", "memory.recompute=full", "optimizer.gas=2"},
      {"--ranks", "2", "train.threads=1", "parallel.pp=2", "parallel.schedule=zb-h1", "optimizer.gas=2"}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::string name = "layout" + std::to_string(i);
    std::vector<std::string> more = layouts[i];
    more.emplace_back("log.trace=true");
    const Outcome traced = lockstep(words(name, more));
    ASSERT_EQ(traced.code, 0) << traced.err;
    EXPECT_EQ(trace(name).at("otherData").at("dropped").integer(), 0) << name;
  }
}

TEST_F(TraceCommand, ItsMemoryIsDeclaredCountedAndCanBeSaved) {
  const auto bytes = [&](const std::string& run) {
    return Json::parse(file(run + "/resources.json")).at("training_bytes").at("workspace").integer();
  };
  ASSERT_EQ(lockstep(words("plain")).code, 0);
  ASSERT_EQ(lockstep(words("traced", {"log.trace=true"})).code, 0);
  ASSERT_EQ(lockstep(words("longer", {"log.trace=true", "log.trace_steps=20"})).code, 0);
  const std::int64_t ten = bytes("traced") - bytes("plain");
  EXPECT_GT(ten, 0);
  EXPECT_LT(ten, 2 << 20);
  EXPECT_NEAR(static_cast<double>(bytes("longer") - bytes("plain")), 2.0 * static_cast<double>(ten), 64);
  const Outcome dry = lockstep(words("dry", {"log.trace=true", "--dry-run"}));
  EXPECT_NE(dry.out.find("spans of the trace"), std::string::npos) << dry.out;
  const Outcome refused = lockstep(words("refused", {"log.trace=true", "memory.limit=256KiB"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("log.trace=false saves "), std::string::npos) << refused.err;
}

TEST_F(TraceCommand, TraceStepsOfNoneIsRefused) {
  const Outcome refused = lockstep(words("bad", {"log.trace=true", "log.trace_steps=0"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("log.trace_steps"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bad"));
}

}  // namespace
}  // namespace lockstep::app
