#include "app/watch/watched_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>

#include "app/cli/page.h"
#include "app/folder/run_lock.h"
#include "app/report/chart.h"
#include "app/report/report_page.h"
#include "base/timer.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

/// CPU time of the calling thread.
double seconds_of_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds since the run wrote a line.
double silence_of(const RunData& run) {
  namespace fs = std::filesystem;
  std::error_code gone;
  const auto written = fs::last_write_time(run.folder / "metrics.jsonl", gone);
  return gone ? 0 : std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

/// "going on, step 120 of 5,000, 12.0 min left"; while a rank is late, also what is lost to it.
std::string state_of(const RunData& run) {
  const std::int64_t step = run.steps.back().step, all = run.config.train.max_iters;
  const bool counts = !run.config.train.max_epochs && step <= all;
  std::string at = fmt::format("step {}{}", format_count(step), counts ? fmt::format(" of {}", format_count(all)) : "");
  if (const train::LoggedStep& last = run.steps.back(); last.late_rank)
    at += fmt::format(", {} of it lost to rank {}", format_seconds(last.in(train::StepPart::lost)), *last.late_rank);
  if (!is_written(run.folder)) return fmt::format("has ended, {}", at);
  constexpr double minute = 60, patience = 3;
  const double silence = silence_of(run), line = run.seconds() * static_cast<double>(run.config.train.log_interval);
  if (silence > std::max(minute, patience * line))
    return fmt::format("going on, {}, but no line has come for {:.0f} min", at, silence / minute);
  if (!counts || step == all) return fmt::format("going on, {}", at);
  return fmt::format("going on, {}, {} left", at, format_seconds(run.seconds() * static_cast<double>(all - step)));
}

std::string about(const std::vector<RunData>& runs, const std::vector<std::string>& states,
                  const std::vector<Problem>& problems) {
  std::string text = "<p class=\"note\">lockstep watch</p>\n<ul>";
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += fmt::format("<li><i class=\"{}\"></i>{}: {}</li>", class_of_run(i), escaped(runs[i].label), escaped(states[i]));
  for (const Problem& problem : problems) text += fmt::format("<li>{}</li>", escaped(problem.message));
  return text + "</ul>\n";
}

}  // namespace

WatchedRuns::Seen WatchedRuns::look(bool now) {
  const std::lock_guard lock(mutex_);
  if (seen_.body != nullptr && !now && now_seconds() < next_) return seen_;
  const double began = seconds_of_thread();
  look_again();
  constexpr double least_pause = 0.5, pauses = 300;  // the latter per time that a look takes
  next_ = now_seconds() + std::max(least_pause, pauses * (seconds_of_thread() - began));
  return seen_;
}

void WatchedRuns::look_again() {
  std::vector<Problem> problems;
  std::vector<std::string> states;
  try {
    problems = read_again(folders_, runs_);
    for (const RunData& run : runs_) states.push_back(state_of(run));
  } catch (const std::exception& error) {  // as of a disk that fails
    problems.push_back({error.what(), ""});
    runs_.clear();
    states.clear();
  }
  if (runs_.empty() && problems.empty())
    problems.push_back({fmt::format("no run in {} has logged a step yet", fmt::join(folders_, ", ")), ""});
  std::string mark;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const RunData::Read& read = runs_[i].read;
    mark += fmt::format("{}\n{} {} {} {}\n", runs_[i].label, read.mark, read.metrics.bytes, read.samples.bytes, states[i]);
  }
  for (const Problem& problem : problems) mark += problem.message + "\n";
  if (seen_.body != nullptr && mark == mark_) return;
  const std::string title = runs_.size() == 1 ? runs_[0].label : fmt::format("{}", fmt::join(folders_, ", "));
  seen_ = {std::make_shared<const std::string>(report_body(runs_, title, about(runs_, states, problems))), seen_.version + 1};
  mark_ = std::move(mark);
}

}  // namespace lockstep::app
