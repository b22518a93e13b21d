#pragma once

// Runs as a page shows them while they go on. What was appended to their files is read, and the page's body made anew.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/report/run_data.h"

namespace lockstep::app {

class WatchedRuns {
 public:
  /// Runs, or folders of runs; they need not be there yet.
  explicit WatchedRuns(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  struct Seen {
    std::shared_ptr<const std::string> body;  ///< of a report's page (report_body)
    std::uint64_t version = 0;                ///< another one for another body
  };
  /// The runs as they are where `now`, else as they were a moment ago. Looking takes less than 0.4 % of one core's time.
  /// Thread-safe; throws nothing but std::bad_alloc: what is wrong stands in the body.
  Seen look(bool now = false);

 private:
  void look_again();
  const std::vector<std::string> folders_;
  std::mutex mutex_;
  std::vector<RunData> runs_;
  std::string mark_;  ///< of what the body shows
  Seen seen_;
  double next_ = 0;  ///< when to look again, by now_seconds()
};

}  // namespace lockstep::app
