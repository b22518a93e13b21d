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
  double sum = 0;         ///< of the logarithms of the continuation's token probabilities
  bool likeliest = true;  ///< whether each token was the likeliest one
};

class LikelihoodReader {
 public:
  /// Reads texts of at most `longest` tokens, the model's block size or less. The references in `model` outlive this.
  LikelihoodReader(const ModelShare& model, std::int64_t longest);
  void declare(Arena& workspace, Arena& cache);

  /// The likelihood of tokens [from, end) given all before them; from >= 1. The beginning that the text shares with the last one
  /// is not read again; the result does not depend on that. Ranks without the head get zeros. Collective over the pipeline's
  /// ranks, each with the same text.
  Likelihood of(std::span<const std::int32_t> tokens, std::size_t from);
  /// Forgets the last text, because the weights were changed.
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
