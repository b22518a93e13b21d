#pragma once

// Log lines of the form [2026-01-02 03:04:05.678][INFO][module:line] - text. One Log per rank, passed to what needs
// it; by default only rank 0 prints below CRITICAL.

#include <cstdio>
#include <source_location>
#include <string>
#include <string_view>

namespace lockstep {

enum class Level { debug, info, warning, error, critical };

class Log {
 public:
  /// Prints lines of at least `least` to `out` (not owned).
  explicit Log(std::FILE* out = stdout, Level least = Level::info);
  /// Also append every printed line to this file (not owned, may be null).
  void also_to(std::FILE* file) { second_ = file; }
  /// A function called before and after a line is printed on a terminal (a progress bar hides and shows itself); may be empty.
  struct Guard {
    virtual ~Guard() = default;
    virtual void hide() = 0;
    virtual void show() = 0;
  };
  void set_guard(Guard* guard) { guard_ = guard; }

  void line(Level level, std::string_view text, std::source_location where = std::source_location::current());
  /// A line as it is, without time and place, where info() lines are printed.
  void plain(std::string_view text);
  void info(std::string_view text, std::source_location where = std::source_location::current()) {
    line(Level::info, text, where);
  }
  void warning(std::string_view text, std::source_location where = std::source_location::current()) {
    line(Level::warning, text, where);
  }

 private:
  void print(const std::string& line);
  std::FILE* out_;
  std::FILE* second_ = nullptr;
  Guard* guard_ = nullptr;
  Level least_;
};

}  // namespace lockstep
