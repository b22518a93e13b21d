#pragma once

// The arguments of a command that answers. Its answer is printed in one way: as text, as JSON (--json), as CSV where there are
// tables (--csv), and into a file (--out).

#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/command_line.h"
#include "app/folder/output_file.h"
#include "base/error.h"
#include "base/text/answer.h"

namespace lockstep::app {

class AnswerLine : public CommandLine {
 public:
  using CommandLine::CommandLine;

  /// --csv: the answer has tables.
  void ask_csv() { asks_csv_ = true; }
  /// Makes --out the path of another file than the answer. `meaning` says what the file is. `own` tells whether a file that is
  /// there may be replaced.
  void ask_out(std::string value, std::string meaning, OwnFile own);
  /// A whole number from `least` to `most`.
  template <class Int>
  void count(const std::string& name, Int& target, std::string value, std::string meaning, std::int64_t least = 1,
             std::int64_t most = most_int) {
    std::int64_t& read = declare_count(name, target, std::move(value), std::move(meaning), least, most);
    after_.emplace_back([&read, &target] { target = static_cast<Int>(read); });
  }

  /// Reads the arguments; false where help was printed. What is wrong with numbers is collected, as by demand().
  bool read(const Arguments& arguments);
  /// Behind read(): adds a problem unless the rule holds.
  void demand(bool holds, std::string message, std::string remedy);
  /// Adds the problems of a UserError that `work` throws.
  void collect(const std::function<void()>& work);
  std::vector<Problem>& problems() { return problems_; }
  /// Throws UserError with all problems.
  void check();

  /// Prints what the answer's text has more than before, so that a long answer is read as it grows. Prints nothing where --json,
  /// --csv or --out was asked for.
  void show(const Answer& answer);
  /// Prints the answer, or the rest of it, as the options say; the first process does.
  void print(const Answer& answer);
  /// Where a command tells how it goes: standard error, where the answer is for a program or a file, else standard output.
  std::FILE* told_to() const;
  const std::string& out() const { return out_; }

 protected:
  /// Adds a step that follows parse(), such as a rule for what was read.
  void after(std::function<void()> step) { after_.push_back(std::move(step)); }

 private:
  std::int64_t& declare_count(const std::string& name, std::int64_t standard, std::string value, std::string meaning,
                              std::int64_t least, std::int64_t most);

  std::string out_;
  OwnFile own_ = nullptr;  // none: the answer goes to --out
  bool json_ = false, csv_ = false, asks_csv_ = false;
  std::size_t shown_ = 0;  // of the text
  std::deque<std::int64_t> counts_;
  std::vector<std::function<void()>> after_;  // what follows parse(): rules, and values to their variables
  std::vector<Problem> problems_;
};

}  // namespace lockstep::app
