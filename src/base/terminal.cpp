#include "base/terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/timer.h"
#include "base/units.h"

namespace lockstep {
namespace {

constexpr double least_seconds_between_redraws = 0.1;
constexpr int widest_bar = 30;

/// Columns that UTF-8 text of single-width characters takes.
int columns_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// The first `columns` characters of UTF-8 text.
std::string_view cut(std::string_view text, int columns) {
  std::size_t end = 0;
  while (end < text.size()) {
    if ((text[end] & 0xC0) != 0x80 && columns-- <= 0) break;
    ++end;
  }
  return text.substr(0, end);
}

/// A bar of `columns` characters in steps of an eighth of a character.
std::string bar_text(double fraction, int columns) {
  static constexpr std::array eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int filled = static_cast<int>(std::floor(fraction * columns * 8));
  std::string bar;
  for (int i = 0; i < filled / 8; ++i) bar += "█";
  bar += eighths[static_cast<std::size_t>(filled % 8)];
  for (int i = columns_of(bar); i < columns; ++i) bar += ' ';
  return bar;
}

constexpr int usual_width = 80;

/// 0: not known.
int columns_of_terminal(std::FILE* file) {
  winsize size{};
  return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// COLUMNS; 0: not set.
int wished_columns() {
  const char* text = std::getenv("COLUMNS");
  return text != nullptr ? std::max(std::atoi(text), 0) : 0;
}

}  // namespace

bool is_terminal(std::FILE* file) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(file)) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

bool say(std::FILE* file, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();  // one call: texts of threads do not mix
  return std::fflush(file) == 0 && written;
}

bool is_unread(std::FILE* file) {
  pollfd watched{fileno(file), POLLOUT, 0};
  return watched.fd >= 0 && poll(&watched, 1, 0) > 0 && (watched.revents & (POLLERR | POLLHUP)) != 0;
}

int terminal_width() {
  for (std::FILE* file : {stdout, stderr}) {
    if (const int columns = columns_of_terminal(file); columns > 0) return columns;
  }
  const int columns = wished_columns();
  return columns > 0 ? columns : usual_width;
}

int text_width(std::FILE* file) {
  for (const int columns : {wished_columns(), columns_of_terminal(file)}) {
    if (columns > 0) return columns;
  }
  return usual_width;
}

ProgressBar::ProgressBar(std::FILE* out, std::string label, double total)
    : out_(out), label_(std::move(label)), total_(total), started_(now_seconds()), live_(is_terminal(out)) {}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::update(double done, std::string_view text) {
  done_ = done;
  text_ = text;
  if (live_ && now_seconds() - drawn_ >= least_seconds_between_redraws) draw();
}

void ProgressBar::finish() {
  if (live_ && drawn_ > 0) {
    draw();
    say(out_, "\n");
  }
  live_ = visible_ = false;
}

void ProgressBar::hide() {
  if (!visible_) return;
  say(out_, "\r\x1b[K");
  visible_ = false;
}

void ProgressBar::show() {
  if (live_ && drawn_ > 0) draw();
}

void ProgressBar::draw() {
  const int known = columns_of_terminal(out_);
  const int width = (known > 0 ? known : terminal_width()) - 1;  // the last column would wrap
  const double fraction = total_ > 0 ? std::clamp(done_ / total_, 0.0, 1.0) : 0.0;
  drawn_ = now_seconds();
  const double elapsed = drawn_ - started_;
  const std::string time = fraction >= 1  ? format_seconds(elapsed)
                           : fraction > 0 ? "ETA " + format_seconds(elapsed * (1 - fraction) / fraction)
                                          : "ETA ?";
  const std::string head = fmt::format("{} ", label_);
  const std::string tail = fmt::format(" {:3.0f}%  {}{}{}", std::floor(100 * fraction), text_, text_.empty() ? "" : "  ", time);
  const int columns = std::min(widest_bar, width - columns_of(head) - columns_of(tail));
  const std::string line = columns > 2 ? head + "▕" + bar_text(fraction, columns - 2) + "▏" + tail : head + tail;
  say(out_, fmt::format("\r{}\x1b[K", cut(line, width)));
  visible_ = true;
}

}  // namespace lockstep
