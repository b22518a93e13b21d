#include "base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/text/paint.h"

namespace lockstep {
namespace {

/// A terminal of 60 columns whose screen can be read.
class Screen {
 public:
  Screen() {
    setenv("TERM", "xterm", 1);
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) return;
    const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size{24, 60, 0, 0};
    ioctl(slave, TIOCSWINSZ, &size);
    file_ = fdopen(slave, "w");
    fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  ~Screen() {
    if (file_ != nullptr) std::fclose(file_);
    if (master_ >= 0) close(master_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  std::FILE* file() { return file_; }
  /// What was written since the last call.
  std::string text() {
    std::string all;
    char piece[4096];
    for (ssize_t count = 0; (count = read(master_, piece, sizeof piece)) > 0;) all.append(piece, static_cast<std::size_t>(count));
    return all;
  }

 private:
  int master_ = -1;
  std::FILE* file_ = nullptr;
};

std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Terminal, OnlyARealOneRedraws) {
  Screen screen;
  if (screen.file() == nullptr) GTEST_SKIP() << "no pseudo-terminal here";
  EXPECT_TRUE(is_terminal(screen.file()));
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(is_terminal(screen.file()));
  setenv("TERM", "xterm", 1);
  std::FILE* plain = std::tmpfile();
  EXPECT_FALSE(is_terminal(plain));
  std::fclose(plain);
  EXPECT_GT(terminal_width(), 0);
}

TEST(Terminal, TextHasTheWidthOfWhatShowsIt) {
  Screen screen;
  if (screen.file() == nullptr) GTEST_SKIP() << "no pseudo-terminal here";
  std::FILE* plain = std::tmpfile();
  unsetenv("COLUMNS");
  EXPECT_EQ(text_width(screen.file()), 60);
  EXPECT_EQ(text_width(plain), 80);
  setenv("COLUMNS", "70", 1);
  EXPECT_EQ(text_width(screen.file()), 70);
  EXPECT_EQ(text_width(plain), 70);
  setenv("COLUMNS", "many", 1);
  EXPECT_EQ(text_width(plain), 80);
  unsetenv("COLUMNS");
  std::fclose(plain);
}

TEST(Terminal, ShowsColoursUnlessTheyAreUnwanted) {
  Screen screen;
  if (screen.file() == nullptr) GTEST_SKIP() << "no pseudo-terminal here";
  std::FILE* plain = std::tmpfile();
  unsetenv("NO_COLOR");
  unsetenv("CLICOLOR_FORCE");
  EXPECT_TRUE(shows_colours(screen.file()));
  EXPECT_FALSE(shows_colours(plain));
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(shows_colours(screen.file()));
  setenv("TERM", "xterm", 1);
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(shows_colours(screen.file())) << "no-color.org: not empty";
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(shows_colours(screen.file()));
  choose_colours("auto");
  EXPECT_FALSE(shows_colours(screen.file()));
  choose_colours("always");
  EXPECT_TRUE(shows_colours(plain));
  choose_colours("never");
  EXPECT_FALSE(shows_colours(screen.file()));
  EXPECT_THROW(choose_colours("sometimes"), UserError);
  unsetenv("NO_COLOR");
  std::fclose(plain);
}

TEST(Paint, PutsInksOnErrors) {
  std::FILE* plain = std::tmpfile();
  EXPECT_EQ(Paint(plain).error("lockstep: bad\n  -> mend it"), "lockstep: bad\n  -> mend it");
  choose_colours("always");
  const Paint paint(plain);
  EXPECT_EQ(paint(Ink::heading, "options:"), "\x1b[1moptions:\x1b[0m");
  EXPECT_EQ(paint(Ink::heading, ""), "");
  EXPECT_EQ(paint.error("lockstep: bad: x\n  -> mend it\nmore\n  -> so"),
            "\x1b[1;31mlockstep:\x1b[0m bad: x\n\x1b[36m  -> mend it\x1b[0m\nmore\n\x1b[36m  -> so\x1b[0m");
  EXPECT_EQ(paint.error("no colon"), "no colon");
  unsetenv("CLICOLOR_FORCE");
  std::fclose(plain);
}

TEST(Progress, DrawsNothingIntoAFile) {
  std::FILE* plain = std::tmpfile();
  {
    ProgressBar bar(plain, "train", 10);
    bar.update(5, "half");
    bar.hide();
    bar.show();
    bar.finish();
  }
  std::fflush(plain);
  EXPECT_EQ(lseek(fileno(plain), 0, SEEK_END), 0);
  std::fclose(plain);
}

TEST(Progress, ShowsLabelBarPercentTextAndTime) {
  Screen screen;
  if (screen.file() == nullptr) GTEST_SKIP() << "no pseudo-terminal here";
  ProgressBar bar(screen.file(), "train", 200);
  bar.update(84, "loss 2.31");
  const std::string text = screen.text();
  for (const char* part : {"train ", "█", " 42%", "loss 2.31", "ETA "})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  bar.update(200, "loss 2.00");
  bar.finish();
  const std::string end = screen.text();
  EXPECT_NE(end.find("100%  loss 2.00"), std::string::npos) << end;
  EXPECT_EQ(end.back(), '\n');
  bar.finish();
  EXPECT_EQ(screen.text(), "");
}

TEST(Progress, NeverFillsTheLastColumn) {
  Screen screen;
  if (screen.file() == nullptr) GTEST_SKIP() << "no pseudo-terminal here";
  ProgressBar bar(screen.file(), "train", 3);
  bar.update(1, "a text that is far longer than the sixty columns that this terminal has");
  const std::string text = screen.text();
  EXPECT_EQ(columns_of(text), 59 + std::string("\r\x1b[K").size()) << text;
}

TEST(Progress, LogLinesAppearAboveTheBar) {
  Screen screen;
  if (screen.file() == nullptr) GTEST_SKIP() << "no pseudo-terminal here";
  Log log(screen.file());
  ProgressBar bar(screen.file(), "train", 2);
  log.set_guard(&bar);
  log.info("before the bar");
  EXPECT_EQ(screen.text().find("train"), std::string::npos);
  bar.update(1, "");
  screen.text();
  log.info("a line");
  const std::string text = screen.text();
  EXPECT_EQ(text.rfind("\r\x1b[Ka line", 0), 0U) << text;  // the bar's line is cleared, then the log line starts
  EXPECT_LT(text.find("a line\r\n"), text.find("train")) << text;
}

TEST(Plot, IsALineWithRoundTicks) {
  EXPECT_EQ(plot("loss", "step", {{"a", {0, 10, 20, 40, 100}, {4.2, 3, 2.5, 2.2, 2}}}, 40), R"(                  loss
   ┌───────────────────────────────────┐
   │⢇                                  │
   │⢸                                  │
4.0┤⠈⡆                                 │
   │ ⢣                                 │
   │ ⢸                                 │
3.5┤  ⡇                                │
   │  ⢣                                │
   │  ⠸⡀                               │
   │   ⡇                               │
3.0┤   ⢱                               │
   │   ⠈⢆                              │
   │    ⠈⢆                             │
   │     ⠘⡄                            │
2.5┤      ⠘⡄                           │
   │       ⠈⠑⢄⡀                        │
   │          ⠈⠒⢄                      │
   │             ⠉⠒⠒⠤⠤⠤⢄⣀⣀⣀            │
2.0┤                       ⠉⠉⠉⠒⠒⠒⠢⠤⠤⠤⣀⣀│
   └┬──────┬──────┬─────┬──────┬──────┬┘
    0     20     40    60     80     100
                  step
)");
}

TEST(Plot, SeriesHaveMarksALegendAndTurnsWhereTheyAreEqual) {
  const std::vector<double> x{0, 50, 100};
  const std::vector<Series> series{{"train", x, {3, 2, 1}}, {"validation", x, {3, 2.5, 2.5}}, {"again", x, {3, 2.5, 2.5}}};
  EXPECT_EQ(plot("loss", "step", series, 48), R"(                      loss
   ┌───────────────────────────────────────────┐
3.0┤⠑•××•                                      │
   │  ⠈⠢•×•×•                                  │
   │     ⠑⢄⡀ ×•×•×                             │
   │       ⠈⠢⣀    •×•×•                        │
2.5┤          ⠑⢄       ×•×•×•×•×•×•×•×•×•×•×•×•│
   │            ⠉⠢⡀                            │
   │              ⠈⠑⢄                          │
   │                 ⠉⠢⡀                       │
2.0┤                   ⠈⠒⢄                     │
   │                      ⠑⠤⡀                  │
   │                        ⠈⠢⡀                │
   │                          ⠈⠑⢄              │
   │                             ⠑⠤⡀           │
1.5┤                               ⠈⠢⡀         │
   │                                 ⠈⠑⢄       │
   │                                    ⠑⠤⡀    │
   │                                      ⠈⠢⡀  │
1.0┤                                        ⠈⠑⢄│
   └┬───────┬────────┬───────┬────────┬───────┬┘
    0      20       40      60       80      100
                      step
    ⠒⠒ train   •• validation   ×× again
)");
}

TEST(Plot, AConstantHasAGapWhereItIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(plot("loss", "step", {{"a", {1, 2, 3, 4, 5, 6}, {3, 3, nan, 3, nan, 3}}}, 40), R"(                  loss
   ┌───────────────────────────────────┐
3.3┤                                   │
   │                                   │
   │                                   │
3.2┤                                   │
   │                                   │
   │                                   │
3.1┤                                   │
   │                                   │
3.0┤⣀⣀⣀⣀⣀⣀⣀⡀            ⢄             ⢄│
   │                                   │
   │                                   │
2.9┤                                   │
   │                                   │
   │                                   │
2.8┤                                   │
   │                                   │
   │                                   │
2.7┤                                   │
   └┬──────┬──────┬─────┬──────┬──────┬┘
    1      2      3     4      5      6
                  step
)");
}

TEST(Plot, ALegendIsFoldedAndMarksAreLettersInTheEnd) {
  std::vector<Series> series;
  for (int i = 0; i < 11; ++i) series.push_back({"runs/number-" + std::to_string(i), {0, 1}, {0, 1}});
  const std::vector<std::string> lines = lines_of(plot("t", "x", series, 40));
  ASSERT_EQ(lines.size(), 23U + 6);
  EXPECT_EQ(lines[23], "    ⠒⠒ runs/number-0   •• runs/number-1");
  EXPECT_EQ(lines.back(), "    BB runs/number-10");
  EXPECT_EQ(lines_of(plot("t", "x", series, 120)).size(), 23U + 2);
}

TEST(Plot, IsNeitherTooNarrowNorTooWide) {
  for (const auto& [asked, columns] : std::vector<std::pair<int, std::size_t>>{{10, 40}, {40, 40}, {100, 100}, {300, 120}}) {
    const std::vector<std::string> lines = lines_of(plot("t", "x", {{"a", {0, 2e6}, {0, 3e5}}}, asked));
    for (std::size_t row = 1; row <= 20; ++row) EXPECT_EQ(columns_of(lines[row]), columns) << lines[row];
    EXPECT_LE(columns_of(lines[21]), columns) << lines[21];
  }
}

TEST(Plot, OfMorePointsThanColumnsMeansAreDrawn) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Series noisy{"a", {}, {}};
  for (int i = 0; i < 4000; ++i) {
    noisy.x.push_back(i);
    noisy.y.push_back(i % 2);
  }
  noisy.y[17] = infinity;
  const Series means = thinned(noisy, 40);
  ASSERT_EQ(means.x.size(), 40U);
  EXPECT_EQ(means.x.back(), 3949.5);
  EXPECT_EQ(means.y.back(), 0.5);
  EXPECT_EQ(means.y.front(), 49.0 / 99);
  EXPECT_EQ(thinned(noisy, 4000).y[17], infinity);
  EXPECT_FALSE(std::isfinite(thinned({"none", {1, 2}, {infinity, infinity}}, 1).y[0]));
  EXPECT_NE(plot("loss", "step", {noisy}, 40).find("0.500┤"), std::string::npos) << plot("loss", "step", {noisy}, 40);
}

TEST(Plot, SurvivesEveryKindOfData) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<Series>> cases{{},
                                               {{"empty", {}, {}}},
                                               {{"one", {5}, {3}}},
                                               {{"holes", {1, 2, 3, 4}, {nan, infinity, 1, -infinity}}},
                                               {{"huge", {1, 2}, {1.7e308, -1.7e308}}},
                                               {{"tiny", {1, 2}, {0, 5e-324}}},
                                               {{"uneven", {1, 2, 3}, {1}}}};
  for (const auto& series : cases) {
    const std::vector<std::string> lines = lines_of(plot("t", "x", series, 10));  // widened to the least width
    ASSERT_EQ(lines.size(), 23U) << lines[0];
    for (std::size_t row = 1; row <= 20; ++row) EXPECT_EQ(columns_of(lines[row]), 40U) << lines[row];
  }
  EXPECT_NE(plot("t", "x", {{"around zero", {-1, 1}, {-0.3, 0.3}}}).find(" 0.0┤"), std::string::npos);
}

TEST(Plot, CurvesHaveColoursWhereTheyAreShown) {
  const std::string text =
      plot("x -> y", "iter", {{"a b", {0, 1, 2}, {3, 2, 1}}, {"val", {0, 2}, {2.5, 1.5}}}, 60) + "\n| • and o |\n";
  EXPECT_EQ(with_coloured_curves(text, Paint()), text);
  choose_colours("always");
  const std::string coloured = with_coloured_curves("before\n" + text, Paint(stdout));
  unsetenv("CLICOLOR_FORCE");
  std::string plain;
  for (std::size_t at = 0; at < coloured.size(); ++at) {
    if (coloured[at] == '\x1b') {
      at = coloured.find('m', at);
    } else {
      plain += coloured[at];
    }
  }
  EXPECT_EQ(plain, "before\n" + text);
  EXPECT_NE(coloured.find("\x1b[36m⠒⠒\x1b[0m a b   \x1b[33m••\x1b[0m val\n"), std::string::npos) << coloured;
  EXPECT_TRUE(coloured.ends_with("\n\n| • and o |\n")) << "no plot";
  for (const std::string& line : lines_of(coloured)) {
    const bool curve = line.find("\x1b[36m") != std::string::npos || line.find("\x1b[33m") != std::string::npos;
    EXPECT_EQ(curve,
              (line.ends_with("│") && line.find_first_of("\x1b") != std::string::npos) || line.find("⠒⠒") != std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
