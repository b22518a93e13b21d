#include "base/log.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>
#include <utility>

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

std::string calm_start(Level level) {
  if (level == Level::warning) return "warning: ";
  return level == Level::error ? "error: " : "";
}

}  // namespace

Log::Log(std::FILE* out, Level least, LogForm form) : out_(out), least_(least), form_(form) {}

void Log::keep() {
  copies_ = [this](const std::string& copy) { kept_ += copy; };
}

void Log::also_to(Copies copies) {
  copies_ = std::move(copies);
  if (const std::string before = std::exchange(kept_, ""); !before.empty()) copies_(before);
}

void Log::line(Level level, std::string_view text, std::source_location where) {
  if (level < least_) return;
  const std::string said = visible(text, LineBreaks::kept);
  const std::string stamped =
      fmt::format("[{}][{}][{}:{}] - {}\n", time_stamp(), name_of(level), stem(where.file_name()), where.line(), said);
  print(form_ == LogForm::stamped ? stamped : calm_start(level) + said + '\n', stamped);
}

void Log::plain(std::string_view text) {
  const std::string line = visible(text, LineBreaks::kept) + '\n';
  if (Level::info >= least_) print(line, line);
}

void Log::print(const std::string& line, const std::string& copy) {
  if (guard_ != nullptr) guard_->hide();
  write(out_, with_coloured_curves(line, Paint(out_)));
  if (guard_ != nullptr) guard_->show();
  if (copies_) copies_(copy);
}

}  // namespace lockstep
