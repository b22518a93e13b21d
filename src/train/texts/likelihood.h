#pragma once

// How likely a model finds a continuation of a text.

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/arena.h"
#include "train/staged_decoder.h"
#include "train/whole_logits.h"

namespace lockstep::train {

struct Likelihood {
  double sum = 0;         ///< of the logarithms of its tokens' probabilities
  bool likeliest = true;  ///< each of them was the likeliest one
};

class LikelihoodReader {
 public:
  /// Reads texts of at most `longest` tokens, the model's block size or less; what `model` refers to outlives this.
  LikelihoodReader(const ModelShare& model, std::int64_t longest);
  void declare(Arena& workspace, Arena& cache);

  /// The likelihood of tokens [from, end) given all before them; from >= 1. A beginning that the last text had, too, is not read
  /// again: the result does not depend on it. Where the head is not: nothing. Collective over the pipeline's ranks, each with the
  /// same text.
  Likelihood of(std::span<const std::int32_t> tokens, std::size_t from);
  /// The weights were changed: the last text means nothing.
  void forget() { read_.clear(); }

 private:
  void read_piece(std::span<const std::int32_t> tokens, std::size_t first, std::size_t count, std::size_t from, Likelihood& sum);
  const model::Context& context_;
  std::int64_t piece_;
  StagedDecoder decoder_;
  WholeLogits logits_;
  Mirror tokens_, targets_, loss_;
  std::vector<std::int32_t> read_;  ///< what the cache holds
};

}  // namespace lockstep::train
