#pragma once

// A bench, `lockstep bench NAME`, and the driver of all: it reads their options, starts their ranks and prints their answers.
// Each other source of this folder defines the bench of its name, `Bench NAME_bench()`; CMake lists them (benches()).

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/folder/answer_line.h"
#include "app/settings/run_config.h"
#include "app/start/session.h"
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
  /// Declares the bench's options, reads them and measures. Returns nothing where help was asked for. Throws UserError for
  /// options that cannot be.
  std::optional<Answer> (*run)(BenchLine& line);
};

/// All benches, in the order of their names.
std::vector<Bench> benches();

/// The arguments of one bench, with the options that several benches have.
class BenchLine : public AnswerLine {
 public:
  BenchLine(const Bench& bench, const Arguments& arguments);

  /// --shape, one of step_shape_names().
  void ask_shape(std::string standard = "tiny");
  /// --ranks: by default one a core; under mpiexec the ranks that it started.
  void ask_ranks();
  /// --threads of each rank.
  void ask_threads();
  /// --isa, an instruction set.
  void ask_isa();
  /// --device.
  void ask_device();
  /// --dtype, fp32 or bf16. `whose`: what has this type, for the help.
  void ask_dtype(const std::string& whose);
  /// --folder of the disk that is measured.
  void ask_folder();
  /// --rounds; `meaning`: what a round does.
  template <class Int>
  void ask_rounds(Int& rounds, std::string meaning) {
    count("--rounds", rounds, "N", std::move(meaning));
  }
  /// --seconds, above 0.
  void ask_seconds(double& seconds, std::string meaning);

  bool read() { return AnswerLine::read(arguments_); }

  // These need what read() has read.
  /// Throws UserError for an unknown name.
  const lab::StepShape& shape() const { return lab::step_shape(shape_); }
  /// Throws UserError for an unknown instruction set.
  RankOptions rank_options() const;
  bool on_gpu() const { return device_ == "cuda"; }
  DType dtype() const { return dtype_from_spelling(dtype_); }
  RankCount ranks() const { return rank_count(ranks_); }
  const std::string& folder() const { return folder_; }
  /// A progress bar that counts to `total`, to be drawn while the bench runs.
  ProgressBar bar(double total) const { return {stderr, "bench " + name_, total}; }

  /// check(), then `measure` on every rank; the answer is that of rank 0.
  Answer on_ranks(const RankOptions& ranks, const std::function<Answer(Session&)>& measure);
  Answer on_ranks(const std::function<Answer(Session&)>& measure) { return on_ranks(rank_options(), measure); }

 private:
  std::string name_;
  Arguments arguments_;
  std::string shape_, isa_ = "auto", device_ = "cpu", dtype_ = "fp32", folder_ = ".";
  std::optional<std::int64_t> ranks_;
  std::int64_t threads_ = 0;
  bool asks_ranks_ = false;
};

}  // namespace lockstep::app
