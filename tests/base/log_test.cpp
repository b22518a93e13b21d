#include "base/log.h"

#include <gtest/gtest.h>

#include <regex>

#include "support/capture.h"

namespace lockstep {
namespace {

TEST(LogLines, HaveTheSeedsForm) {
  Capture sink;
  Log log(sink.file(), Level::info, LogForm::stamped);
  log.info("step=10 loss=3.154310");
  const std::regex form(R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\]\[INFO\]\[log_test:\d+\] - step=10 loss=3.154310\n)");
  EXPECT_TRUE(std::regex_match(sink.text(), form)) << sink.text();
}

TEST(LogLines, AreCalmUnlessStampsAreAskedFor) {
  Capture sink;
  Log log(sink.file());
  log.info("a");
  log.warning("b");
  log.line(Level::error, "c");
  EXPECT_EQ(sink.text(), "a\nwarning: b\nerror: c\n");
}

TEST(LogLines, BelowTheLeastLevelAreDropped) {
  Capture sink;
  Log log(sink.file(), Level::warning, LogForm::stamped);
  log.line(Level::debug, "a");
  log.info("b");
  EXPECT_EQ(sink.text(), "");
  log.warning("c");
  log.line(Level::error, "d");
  log.line(Level::critical, "e");
  for (const char* part : {"[WARNING]", "[ERROR]", "[CRITICAL]"}) EXPECT_NE(sink.text().find(part), std::string::npos) << part;
}

TEST(LogLines, ShowControlCharactersAndKeepLines) {
  Capture sink;
  Log log(sink.file());
  log.info("skipped: \x1B[2Jname\n  \xFFrest");
  log.plain("a\tb\x1B");
  EXPECT_NE(sink.text().find("skipped: \\x1b[2Jname\n  \\xffrest\na\tb\\x1b\n"), std::string::npos) << sink.text();
}

TEST(LogLines, HaveStampedCopiesFromTheirKeepingOn) {
  Capture sink;
  std::string copies;
  Log log(sink.file());
  log.info("before");
  log.keep();
  log.info("kept");
  log.plain("as it is");
  log.also_to([&](const std::string& copy) { copies += copy; });
  log.warning("then");
  EXPECT_EQ(sink.text(), "before\nkept\nas it is\nwarning: then\n");
  const std::regex form(R"(\[.*\]\[INFO\]\[log_test:\d+\] - kept\nas it is\n\[.*\]\[WARNING\]\[log_test:\d+\] - then\n)");
  EXPECT_TRUE(std::regex_match(copies, form)) << copies;
}

TEST(LogLines, PlainOnesHaveNeitherTimeNorPlaceAndHideWithInfo) {
  Capture sink;
  Log(sink.file()).plain("Ep 1");
  EXPECT_EQ(sink.text(), "Ep 1\n");
  Log(sink.file(), Level::critical).plain("Ep 2");
  EXPECT_EQ(sink.text(), "Ep 1\n");
}

TEST(LogLines, GuardHidesBeforeAndShowsAfter) {
  struct Recorder : Log::Guard {
    explicit Recorder(Capture& s) : sink(s) {}
    void hide() override { before = sink.text(); }
    void show() override { after = sink.text(); }
    Capture& sink;
    std::string before = "?", after;
  };
  Capture sink;
  Recorder recorder(sink);
  Log log(sink.file());
  log.set_guard(&recorder);
  log.info("x");
  EXPECT_EQ(recorder.before, "");
  EXPECT_EQ(recorder.after, sink.text());
  EXPECT_NE(recorder.after, "");
}

}  // namespace
}  // namespace lockstep
