#pragma once

// Chrome's trace event format, which Perfetto reads too: spans of time in rows of processes, and counters. What is added becomes
// text at once, so that a large trace is one string and not a tree. Times are given in seconds; the format has microseconds.

#include <string>
#include <string_view>

#include "base/json.h"

namespace lockstep {

class ChromeTrace {
 public:
  struct Row {
    int process = 0, row = 0;
  };
  /// Processes are shown in the order of their numbers, and their rows too.
  void name_process(int process, std::string_view name);
  void name_row(const Row& row, std::string_view name);
  /// Spans of a row lie one behind the other or inside each other. `details`: more to show, by name.
  void span(const Row& row, std::string_view category, std::string_view name, double start, double end,
            Json::Object details = {});
  void counter(int process, std::string_view name, std::string_view of, double seconds, double value);

  /// The text of all events. Another trace may add it, perhaps on another rank.
  const std::string& events() const { return events_; }
  void add(const std::string& events);
  /// The file's text. `about` has further facts about the trace.
  std::string text(const Json& about = Json(Json::Object{})) const;

 private:
  void add(Json::Object event);
  std::string events_;  // JSON objects with commas between them
};

}  // namespace lockstep
