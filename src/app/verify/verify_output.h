#pragma once

// What `verify` found, as lines of a table, as JSON and as a page.

#include <string>
#include <vector>

#include "base/text/answer.h"
#include "lab/verify/verify.h"

namespace lockstep::app {

/// "gpt2: 8 blocks of width 48, ..." and the head of its table.
std::string table_head(const lab::VerifyModel& model, int steps);
/// A report as a line, and below it what is wrong.
std::string table_line(const lab::LayoutReport& report);
/// How many layouts kept their promise, and how long it took.
std::string summary(const std::vector<lab::LayoutReport>& reports);
/// Whether every layout keeps its promise; one whose run ended with an error has not shown it.
bool all_hold(const std::vector<lab::LayoutReport>& reports);
/// The exit code: 0 where all hold, 1 where a promise is broken; else that of the errors.
int exit_code(const std::vector<lab::LayoutReport>& reports);

/// A table with a row for each report, of keys alone: the text has table_line().
Table table_of(const std::vector<lab::LayoutReport>& reports);
/// One page that needs no other file.
std::string to_html(const std::vector<lab::VerifyModel>& models, const std::vector<lab::LayoutReport>& reports);

}  // namespace lockstep::app
