#include "app/folder/answer_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/cli/process.h"
#include "base/terminal.h"
#include "io/file.h"

namespace lockstep::app {

void AnswerLine::ask_out(std::string value, std::string meaning, OwnFile own) {
  own_ = own;
  option("--out", out_, std::move(value), std::move(meaning));
}

std::int64_t& AnswerLine::declare_count(const std::string& name, std::int64_t standard, std::string value, std::string meaning,
                                        std::int64_t least, std::int64_t most) {
  std::int64_t& read = counts_.emplace_back(standard);
  option(name, read, std::move(value), std::move(meaning), std::max(most, most_int));
  after_.emplace_back([this, &read, name, standard, least, most] {
    const std::string rule = most == most_int ? fmt::format("at least {}", least) : fmt::format("from {} to {}", least, most);
    demand(read >= least && read <= most, fmt::format("{} {}: must be {}", name, read, rule),
           fmt::format("{} {}", name, std::max(standard, least)));
  });
  return read;
}

bool AnswerLine::read(const Arguments& arguments) {
  if (asks_csv_) flag("--csv", csv_, "the tables with commas between, numbers as they were measured");
  flag("--json", json_, "one line of JSON");
  if (own_ == nullptr) option("--out", out_, "FILE", "where the answer goes, in place of standard output");
  if (!parse(arguments)) return false;
  for (const auto& step : after_) step();
  demand(!json_ || !csv_, "--json and --csv are two formats", "ask for one");
  for (Problem& problem : check_output("--out", out_, own_ != nullptr ? own_ : [](std::string_view) { return false; }))
    problems_.push_back(std::move(problem));
  return true;
}

void AnswerLine::demand(bool holds, std::string message, std::string remedy) {
  if (!holds) problems_.push_back({std::move(message), std::move(remedy)});
}

void AnswerLine::collect(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    problems_.insert(problems_.end(), error.problems().begin(), error.problems().end());
  }
}

void AnswerLine::check() {
  if (!problems_.empty()) throw UserError(std::move(problems_));
}

std::FILE* AnswerLine::told_to() const { return json_ || csv_ || (own_ == nullptr && !out_.empty()) ? stderr : stdout; }

void AnswerLine::show(const Answer& answer) {
  if (told_to() != stdout || !is_first_process()) return;
  std::fputs(with_coloured_curves(answer.text().substr(shown_), Paint(stdout)).c_str(), stdout);
  std::fflush(stdout);
  shown_ = answer.text().size();
}

void AnswerLine::print(const Answer& answer) {
  show(answer);
  if (!is_first_process()) return;
  const std::string text = json_ ? answer.json() : csv_ ? answer.csv() : answer.text().substr(shown_);
  if (own_ == nullptr && !out_.empty()) {
    io::replace_file(out_, text);
  } else {
    std::fputs(text.c_str(), stdout);
  }
}

}  // namespace lockstep::app
