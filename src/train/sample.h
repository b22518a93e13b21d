#pragma once

// Text out of a model: temperature, top-k, top-p, one token after another with cached keys and values.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "train/staged_decoder.h"
#include "train/whole_logits.h"

namespace lockstep::train {

struct SampleOptions {
  std::int64_t tokens = 256;
  double temperature = 0.8;  ///< 0: always the likeliest token
  std::int64_t top_k = 16;   ///< 0: all; ties at the k-th value are kept
  double top_p = 1;          ///< from the smallest set of likeliest tokens with this probability (Holtzman et al. 2020)
  std::uint64_t seed = 1337;
  std::int64_t number = 0;               ///< which of several samples; part of the random numbers' address
  std::vector<std::int32_t> never = {};  ///< ids below the model's vocabulary that are not drawn, because no text has them
};

/// Draws from one row of logits; `uniform` in [0, 1) decides. Logits that are NaN or minus infinity are not drawn. If none is
/// left, token 0 is drawn.
class TokenSampler {
 public:
  std::int32_t draw(std::span<const float> logits, const SampleOptions& options, double uniform);

 private:
  // Workspace, grown to the vocabulary once.
  std::vector<float> likeliest_;
  std::vector<std::int32_t> order_;
};

/// Writes text with a decoder of one sample. Random number i is a function of (seed, sample number, i), so a text does not
/// depend on what was sampled before.
class TextSampler {
 public:
  /// The references in `model` outlive the sampler.
  explicit TextSampler(const ModelShare& model);
  void declare(Arena& workspace, Arena& cache);
  /// Continues `prompt` (not empty) by options.tokens tokens and calls `each` with every one; `each` returns false to stop. A
  /// context that outgrows the block size is cropped to its last block_size tokens and read again. Collective over the pipeline's
  /// ranks, each with the same arguments: every rank learns every token.
  /// `together`: ranks that write texts at the same time, from equal prompts and with equal lengths. A rank whose text ends early
  /// goes on without `each` until the last text has ended, so that all ranks make the same passes. Then the call is collective
  /// over them, too.
  void run(std::span<const std::int32_t> prompt, const SampleOptions& options, const std::function<bool(std::int32_t)>& each,
           comm::Communicator* together = nullptr);

 private:
  /// Reads `tokens` behind the `read_` tokens of the cache, in pieces. Returns the logits of the last one; empty on ranks without
  /// the head.
  std::span<float> read(std::span<const std::int32_t> tokens);
  /// The token that the rank with the head draws. Collective over the pipeline's ranks.
  std::int32_t draw(std::span<float> logits, const SampleOptions& options, double uniform);
  const model::Context& context_;
  std::int64_t piece_;
  StagedDecoder decoder_;
  TokenSampler sampler_;
  Mirror tokens_;       ///< [piece] i32
  WholeLogits logits_;  ///< of one row, where the head is
  std::vector<std::int32_t> text_;
  std::int64_t read_ = 0;  ///< tokens that the cache holds
};

}  // namespace lockstep::train
