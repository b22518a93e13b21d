#pragma once

// Runs side by side, as a page and for a terminal.

#include <string>
#include <vector>

#include "app/report/run_data.h"

namespace lockstep::app {

/// One page that needs no other file and no network.
std::string report_page(const std::vector<RunData>& runs);
std::string report_text(const std::vector<RunData>& runs);

/// Of a table: a head and rows of as many cells, each already as people read it. The same for page and terminal.
struct RunTable {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};
RunTable summary_table(const std::vector<RunData>& runs);
/// Seconds of a step by part, medians, and their share of it.
RunTable account_table(const std::vector<RunData>& runs);
/// How long ranks wait for each other.
RunTable communication_table(const std::vector<RunData>& runs);
/// Of rank 0, by owner; no row for a run that does not say.
RunTable memory_table(const std::vector<RunData>& runs);
RunTable settings_table(const std::vector<RunData>& runs);

}  // namespace lockstep::app
