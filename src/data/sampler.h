#pragma once

// Which window of the text is sample n: a pure function of the seed and the global sample number (numerics.md section 1). So the
// order survives any layout and any restart. It needs no state and no index in memory.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"

namespace lockstep::data {

enum class Order {
  random,      ///< window n starts anywhere, drawn by n
  partition,   ///< epochs: each a new order of the windows that do not overlap, in whole batches
  sequential,  ///< window n starts at n * stride; for evaluation on everything
};

/// What a sample has of the text.
struct Window {
  std::int64_t begin = 0;   ///< its first token
  std::int64_t length = 0;  ///< tokens that are read and have a target: `positions`, or less at the end of a text
  std::int64_t known = 0;   ///< first tokens of these whose targets another window counts
  double reference = 0;     ///< SamplerOptions::references
};

struct SamplerOptions {
  Order order = Order::random;
  std::uint64_t seed = 1337;
  std::string name = "data.random";  ///< name of the sequence; another name, another order
  std::int64_t tokens = 0;           ///< tokens of the text
  std::int64_t positions = 0;        ///< T: a window reads T + 1 tokens
  std::int64_t stride = 0;           ///< sequential order: from one window to the next, at most T; 0: T
  std::int64_t global_batch = 1;     ///< samples a step, over all ranks; epochs are multiples of it
  bool pad_epochs = false;           ///< an epoch's last batch is filled with its first windows; false: it is left out
  /// Text that was cut ahead of time has `shards` pieces of `tokens` tokens, of which this is one. The rank of a piece takes its
  /// equal part of every step from it.
  int shard = 0, shards = 1;
  /// Partition order: so many windows, neighbours in the text, are neighbours in every order. The number divides the windows of
  /// the text and those of a step.
  std::int64_t together = 1;
  /// The log-probabilities that a reference gives the targets of each such window, by the window's number. They may be filled in
  /// until the first window is read.
  std::shared_ptr<const std::vector<double>> references = {};
};

/// The names of the training orders: "data.random", "data.partition".
std::string training_sequence(Order order);

class Sampler {
 public:
  /// Throws UserError when the text is shorter than a window: positions + 1 tokens, in sequential order 2. In partition order the
  /// text needs as many windows as it gives to a step (global_batch / shards), unless epochs are padded.
  explicit Sampler(const SamplerOptions& options);

  /// First token of the window of global sample number `sample`. Where the text was cut ahead of time, the sample must be the
  /// shard's. Sequential order: sample < windows().
  std::int64_t offset(std::uint64_t sample) const;
  /// The whole window of that sample. In sequential order every target of the text counts in exactly one window.
  Window window(std::uint64_t sample) const;

  /// Windows that do not overlap: starts 0, T, 2T, ... below tokens - T. In sequential order, windows that have all targets.
  std::int64_t windows() const { return windows_; }
  std::int64_t steps_per_epoch() const;
  std::int64_t together() const { return options_.together; }
  /// Whether windows have a reference's log-probabilities.
  bool grouped() const { return options_.references != nullptr; }

 private:
  // Samples that this text gives to a step, and to an epoch of whole steps.
  std::int64_t per_step() const { return options_.global_batch / options_.shards; }
  std::int64_t per_epoch() const { return steps_per_epoch() * per_step(); }
  std::uint64_t groups() const { return static_cast<std::uint64_t>(windows_ / options_.together); }
  std::uint64_t number_here(std::uint64_t sample) const;
  std::uint64_t permuted(std::uint64_t index, std::uint64_t epoch) const;

  SamplerOptions options_;
  CounterRng rng_;
  std::int64_t windows_ = 0;
  std::uint64_t side_ = 1;  // the permutation's square: side * side >= groups()
};

}  // namespace lockstep::data
