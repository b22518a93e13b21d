#pragma once

// Progress as "Build a Large Language Model (From Scratch)" prints it where it measures training speed (its folder
// ch05/10_llm-training-speed): a line at each evaluation, texts and memory between them.

#include <cstdint>
#include <string>

namespace lockstep::train {

/// Whose lines tell of a run: WordPlay's, one every few iterations, or those of the book.
enum class LogStyle : std::uint8_t { wordplay, rasbt };

/// Tokens a second over the intervals between evaluations. An evaluation, and a text that is written, count into the interval
/// that follows: mark() comes before them.
class TokenRates {
 public:
  /// `counts_first`: the average has the first interval too, in which things warm up. The book's script for several ranks does
  /// so, those for one do not.
  explicit TokenRates(bool counts_first) : counts_(counts_first) {}

  struct Rates {
    double interval = 0, average = 0;  ///< tokens/s; no average yet: 0
  };
  /// The first interval begins. Times are now_seconds().
  void start(double now) { begun_ = now; }
  void add(double tokens) { tokens_ += tokens; }
  /// Ends an interval; the next one begins at once.
  Rates mark(double now);

 private:
  bool counts_;  // the running interval, in the average
  double begun_ = 0, tokens_ = 0;
  double all_tokens_ = 0, all_seconds_ = 0;
};

/// What the line of an evaluation says.
struct Progress {
  std::int64_t epoch = 1;  ///< from 1
  std::int64_t step = 0;   ///< from 0: the iteration behind which it was
  double train_loss = 0, val_loss = 0;
  TokenRates::Rates rates;  ///< of all ranks
  bool several_ranks = false;
};
/// "Ep 1, Step 000015, Train: 6.201, Val: 6.152, Step tok/sec: 12545, Avg tok/sec: 12545".
std::string progress_line(const Progress& progress);

/// Bytes of one rank.
struct MemoryUse {
  std::int64_t kept = 0;       ///< used between iterations: weights, gradients, optimizer, batches
  std::int64_t committed = 0;  ///< with what an iteration needs
};
/// "\nAllocated memory: 2.5069 GB\nReserved memory: 26.2617 GB\n": GiB, as the book writes them.
std::string memory_lines(const MemoryUse& memory);

}  // namespace lockstep::train
