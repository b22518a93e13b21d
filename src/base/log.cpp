#include "base/log.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>

#include "base/terminal.h"
#include "base/text/visible.h"

namespace lockstep {
namespace {

std::string_view name_of(Level level) {
  static constexpr std::array<std::string_view, 5> names{"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"};
  return names[static_cast<std::size_t>(level)];
}

/// "src/base/log.cpp" -> "log".
std::string_view stem(std::string_view file) {
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  return file.substr(0, file.find('.'));
}

std::string time_stamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(now));
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday,
                     local.tm_hour, local.tm_min, local.tm_sec, milliseconds);
}

void write(std::FILE* file, const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), file);  // one call: lines of several threads do not mix
  std::fflush(file);
}

}  // namespace

Log::Log(std::FILE* out, Level least) : out_(out), least_(least) {}

void Log::line(Level level, std::string_view text, std::source_location where) {
  if (level < least_) return;
  const std::string line = fmt::format("[{}][{}][{}:{}] - {}\n", time_stamp(), name_of(level), stem(where.file_name()),
                                       where.line(), visible(text, LineBreaks::kept));
  print(line);
}

void Log::plain(std::string_view text) {
  if (Level::info >= least_) print(visible(text, LineBreaks::kept) + '\n');
}

void Log::print(const std::string& line) {
  if (guard_ != nullptr) guard_->hide();
  write(out_, with_coloured_curves(line, Paint(out_)));
  if (guard_ != nullptr) guard_->show();
  if (second_ != nullptr) write(second_, line);
}

}  // namespace lockstep
