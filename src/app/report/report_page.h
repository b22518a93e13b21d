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
/// Curves and tables. The JSON has each table's figures as they were measured.
Answer report_answer(const std::vector<RunData>& runs);

// The tables of both, with a row for each run.
Table summary_table(const std::vector<RunData>& runs);
/// When and on what runs ran, by which program and command.
Table origin_table(const std::vector<RunData>& runs);
/// Seconds of a step by part, medians, and their share of it.
Table account_table(const std::vector<RunData>& runs);
/// How long ranks wait for each other.
Table communication_table(const std::vector<RunData>& runs);
/// What rank 0 exchanges in a step, by purpose; no row for a run that does not say.
Table exchange_table(const std::vector<RunData>& runs);
/// Of rank 0, by owner; no row for a run that does not say.
Table memory_table(const std::vector<RunData>& runs);
/// A row for each setting of `rows`, a column for each run; of one run, one for the defaults before it.
Table settings_table(const std::vector<RunData>& runs, const std::vector<SettingRow>& rows);
std::string_view settings_title(const std::vector<RunData>& runs);

}  // namespace lockstep::app
