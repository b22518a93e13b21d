#include "base/log.h"

#include <gtest/gtest.h>

#include <regex>

namespace lockstep {
namespace {

/// A file in memory that tells what was written to it.
class Sink {
 public:
  Sink() : file_(open_memstream(&data_, &size_)) {}
  ~Sink() {
    std::fclose(file_);
    std::free(data_);
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return {data_, size_};
  }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

TEST(LogLines, HaveTheSeedsForm) {
  Sink sink;
  Log log(sink.file());
  log.info("step=10 loss=3.154310");
  const std::regex form(R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\]\[INFO\]\[log_test:\d+\] - step=10 loss=3.154310\n)");
  EXPECT_TRUE(std::regex_match(sink.text(), form)) << sink.text();
}

TEST(LogLines, BelowTheLeastLevelAreDropped) {
  Sink sink;
  Log log(sink.file(), Level::warning);
  log.line(Level::debug, "a");
  log.info("b");
  EXPECT_EQ(sink.text(), "");
  log.warning("c");
  log.line(Level::error, "d");
  log.line(Level::critical, "e");
  for (const char* part : {"[WARNING]", "[ERROR]", "[CRITICAL]"}) EXPECT_NE(sink.text().find(part), std::string::npos) << part;
}

TEST(LogLines, ShowControlCharactersAndKeepLines) {
  Sink sink;
  Log log(sink.file());
  log.info("skipped: \x1B[2Jname\n  \xFFrest");
  log.plain("a\tb\x1B");
  EXPECT_NE(sink.text().find(" - skipped: \\x1b[2Jname\n  \\xffrest\na\tb\\x1b\n"), std::string::npos) << sink.text();
}

TEST(LogLines, AlsoGoToTheSecondFile) {
  Sink sink, second;
  Log log(sink.file());
  log.also_to(second.file());
  log.info("both");
  EXPECT_EQ(sink.text(), second.text());
  EXPECT_NE(second.text().find(" - both\n"), std::string::npos);
}

TEST(LogLines, PlainOnesHaveNeitherTimeNorPlaceAndHideWithInfo) {
  Sink sink;
  Log(sink.file()).plain("Ep 1");
  EXPECT_EQ(sink.text(), "Ep 1\n");
  Log(sink.file(), Level::critical).plain("Ep 2");
  EXPECT_EQ(sink.text(), "Ep 1\n");
}

TEST(LogLines, GuardHidesBeforeAndShowsAfter) {
  struct Recorder : Log::Guard {
    explicit Recorder(Sink& s) : sink(s) {}
    void hide() override { before = sink.text(); }
    void show() override { after = sink.text(); }
    Sink& sink;
    std::string before = "?", after;
  };
  Sink sink;
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
