#pragma once

// A bench, `lockstep bench NAME`, and the driver of all: it reads their options, starts their ranks and prints their answers.
// Each other source of this folder defines the bench of its name, `Bench NAME_bench()`; CMake lists them (benches()).

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "app/settings/run_config.h"
#include "app/start/session.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text/answer.h"
#include "lab/step/step_shapes.h"

namespace lockstep::app {

class BenchLine;

struct Bench {
  std::string name;     ///< as it is typed
  std::string summary;  ///< one line for `lockstep bench --help`
  std::string about;    ///< the first paragraph of its help
  std::string note;     ///< the last one: examples
  /// Declares its options, reads them, measures. None: help was asked for. Throws UserError for options that cannot be.
  std::optional<Answer> (*run)(BenchLine& line);
};

/// In the order of their names.
std::vector<Bench> benches();

/// The arguments of one bench. Options that several benches have are declared here; the variables of the others live until read()
/// returns.
class BenchLine : public CommandLine {
 public:
  BenchLine(const Bench& bench, const Arguments& arguments);

  /// --shape, one of step_shape_names().
  void ask_shape(std::string standard = "tiny");
  /// --ranks: one a core where nothing is said; under mpiexec those that it started.
  void ask_ranks();
  /// --threads of each rank.
  void ask_threads();
  /// --isa, an instruction set.
  void ask_isa();
  /// --dtype, fp32 or bf16; `meaning`: whose type.
  void ask_dtype(const std::string& whose);
  /// --folder of the disk that is measured.
  void ask_folder();
  /// --rounds; `meaning`: what a round does.
  template <class Int>
  void ask_rounds(Int& rounds, std::string meaning) {
    count("--rounds", rounds, "N", std::move(meaning));
  }
  /// A whole number from `least` to `most`.
  template <class Int>
  void count(const std::string& name, Int& target, std::string value, std::string meaning, std::int64_t least = 1,
             std::int64_t most = most_int) {
    std::int64_t& read = declare_count(name, target, std::move(value), std::move(meaning), least, most);
    after_.emplace_back([&read, &target] { target = static_cast<Int>(read); });
  }
  /// --seconds, above 0.
  void ask_seconds(double& seconds, std::string meaning);

  /// Reads the arguments; false where help was printed. What is wrong with numbers is collected, as by demand().
  bool read();
  /// Behind read(): adds a problem unless the rule holds.
  void demand(bool holds, std::string message, std::string remedy);
  std::vector<Problem>& problems() { return problems_; }
  /// Throws UserError with all problems.
  void check();

  // Behind read().
  /// Throws UserError for an unknown name.
  const lab::StepShape& shape() const { return lab::step_shape(shape_); }
  /// Throws UserError for an unknown instruction set.
  RankOptions rank_options() const;
  DType dtype() const { return dtype_from_spelling(dtype_); }
  RankCount ranks() const { return rank_count(ranks_); }
  const std::string& folder() const { return folder_; }
  /// To be drawn while the bench runs.
  ProgressBar bar(double total) const { return {stderr, "bench " + name_, total}; }

  /// check(), then `measure` on every rank; the answer is that of rank 0.
  Answer on_ranks(const RankOptions& ranks, const std::function<Answer(Session&)>& measure);
  Answer on_ranks(const std::function<Answer(Session&)>& measure) { return on_ranks(rank_options(), measure); }
  /// The answer as --json, --csv and --out say.
  void print(const Answer& answer) const;

 private:
  std::int64_t& declare_count(const std::string& name, std::int64_t standard, std::string value, std::string meaning,
                              std::int64_t least, std::int64_t most);

  std::string name_;
  Arguments arguments_;
  std::string shape_, isa_ = "auto", dtype_ = "fp32", folder_ = ".", out_;
  std::optional<std::int64_t> ranks_;
  std::int64_t threads_ = 0;
  bool asks_ranks_ = false, json_ = false, csv_ = false;
  std::deque<std::int64_t> counts_;
  std::vector<std::function<void()>> after_;  // what follows parse(): rules, and values to their variables
  std::vector<Problem> problems_;
};

/// The parts of "a,b,c"; one empty part of an empty text.
std::vector<std::string> parts_of_list(const std::string& list);

}  // namespace lockstep::app
