#pragma once

// Runs side by side, as a page and for a terminal.

#include <string>
#include <string_view>
#include <vector>

#include "app/report/run_data.h"
#include "base/text/answer.h"

namespace lockstep::app {

extern const std::string_view report_style, report_script;  ///< report.css and report.js

/// One page that needs no other file and no network.
std::string report_page(const std::vector<RunData>& runs);
/// The same as it is served: report.js brings what it shows up to date from the server's events, each of which is a
/// report_body(). Only that script runs in it (a Content-Security-Policy by the script's digest).
std::string watched_page(std::string_view body);
/// What stands in a page's body. `about`: HTML below its title; there may be no run.
std::string report_body(const std::vector<RunData>& runs, std::string_view title, std::string_view about);
/// Curves and tables. The JSON has each table's figures as they were measured.
Answer report_answer(const std::vector<RunData>& runs);

// The tables of the page and of the terminal, with a row for each run.
Table summary_table(const std::vector<RunData>& runs);
/// When and on what runs ran, by which program and command.
Table origin_table(const std::vector<RunData>& runs);
/// Seconds of a step by part, medians, and their share of it.
Table account_table(const std::vector<RunData>& runs);
/// How long ranks wait for each other.
Table communication_table(const std::vector<RunData>& runs);
/// What rank 0 exchanges in a step, by purpose; no row for a run that does not say.
Table exchange_table(const std::vector<RunData>& runs);
/// Bytes that rank 0 took, by kind of memory; no row for a run that does not say.
Table memory_table(const std::vector<RunData>& runs);
/// A row for each setting of `rows`, a column for each run. With one run, a column for the defaults comes before it.
Table settings_table(const std::vector<RunData>& runs, const std::vector<SettingRow>& rows);
std::string_view settings_title(const std::vector<RunData>& runs);

}  // namespace lockstep::app
