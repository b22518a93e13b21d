#pragma once

// What a command says while it works. One Log per rank, passed to what needs it; by default only rank 0 prints below CRITICAL.

#include <cstdio>
#include <functional>
#include <source_location>
#include <string>
#include <string_view>

namespace lockstep {

enum class Level { debug, info, warning, error, critical };

/// calm: "text", and "warning: text". stamped: "[2026-01-02 03:04:05.678][INFO][module:line] - text".
enum class LogForm { calm, stamped };

class Log {
 public:
  /// Prints lines of at least `least` to `out` (not owned).
  explicit Log(std::FILE* out = stdout, Level least = Level::info, LogForm form = LogForm::calm);
  /// Keeps a stamped copy of every printed line for also_to().
  void keep();
  /// Calls `copies` with the copies kept so far, in one text, and then with every copy to come. The log passes on what `copies`
  /// throws.
  using Copies = std::function<void(const std::string&)>;
  void also_to(Copies copies);
  /// A function called before and after a line is printed on a terminal (a progress bar hides and shows itself); may be empty.
  struct Guard {
    virtual ~Guard() = default;
    virtual void hide() = 0;
    virtual void show() = 0;
  };
  void set_guard(Guard* guard) { guard_ = guard; }

  void line(Level level, std::string_view text, std::source_location where = std::source_location::current());
  /// Prints a line without time and place, where info() lines are printed.
  void plain(std::string_view text);
  void info(std::string_view text, std::source_location where = std::source_location::current()) {
    line(Level::info, text, where);
  }
  void warning(std::string_view text, std::source_location where = std::source_location::current()) {
    line(Level::warning, text, where);
  }

 private:
  void print(const std::string& line, const std::string& copy);
  std::FILE* out_;
  Copies copies_;
  Guard* guard_ = nullptr;
  Level least_;
  LogForm form_;
  std::string kept_;
};

}  // namespace lockstep
