#pragma once

// Progress lines of the book "Build a Large Language Model (From Scratch)" for log.style=rasbt. They are those of its folder
// ch05/10_llm-training-speed: a line at each evaluation, with texts and memory between the lines.

#include <cstdint>
#include <string>

#include "train/report/log_lines.h"

namespace lockstep::train {

/// Tokens a second over the intervals between evaluations. An evaluation or a written text counts into the interval that follows,
/// because mark() is called before it.
class TokenRates {
 public:
  /// `counts_first`: the average counts the first interval, in which things warm up. The book's script for several ranks does so;
  /// its scripts for one rank do not.
  explicit TokenRates(bool counts_first) : counts_(counts_first) {}

  struct Rates {
    double interval = 0, average = 0;  ///< tokens/s; `average` is 0 before there is one
  };
  /// The first interval begins. Times are now_seconds().
  void start(double now) { begun_ = now; }
  void add(double tokens) { tokens_ += tokens; }
  /// Ends an interval; the next one begins at once.
  Rates mark(double now);

 private:
  bool counts_;  // whether the average counts the running interval
  double begun_ = 0, tokens_ = 0;
  double all_tokens_ = 0, all_seconds_ = 0;
};

/// "Ep 1, Step 000015, Train: 6.201, Val: 6.152, Step tok/sec: 12545, Avg tok/sec: 12545": epochs from 1, steps from 0.
std::string progress_line(const Losses& losses, std::int64_t epoch, const TokenRates::Rates& rates, bool several_ranks);

/// Bytes of one rank.
struct MemoryUse {
  std::int64_t kept = 0;       ///< used between iterations: weights, gradients, optimizer, batches
  std::int64_t committed = 0;  ///< `kept` and what an iteration needs
};
/// "\nAllocated memory: 2.5069 GB\nReserved memory: 26.2617 GB\n": GiB, as the book writes them.
std::string memory_lines(const MemoryUse& memory);

class BookLines final : public LogLines {
 public:
  /// In samples of all ranks.
  struct Epochs {
    std::int64_t length = 1, step = 1;
  };
  /// `memory` is this rank's. The log outlives the object.
  BookLines(Log& log, const Epochs& epochs, bool several_ranks, const MemoryUse& memory)
      : LogLines(log, {}), epochs_(epochs), several_ranks_(several_ranks), memory_(memory), rates_(several_ranks) {}
  void started(const RunState& state) override;
  void step_done(const Metrics& m) override;
  void logged(const Metrics& /*m*/) override {}
  void evaluated(const Losses& losses, double begun) override;
  void sampled(const std::optional<std::string>& text) override;

 private:
  Epochs epochs_;
  RunState begun_;  // where this start of the run began
  bool several_ranks_;
  MemoryUse memory_;
  TokenRates rates_;
};

}  // namespace lockstep::train
