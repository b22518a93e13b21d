#pragma once

// Rows of throughputs that others published, from a CSV file, and the planner's predictions for the same layouts.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/step_time.h"

namespace lockstep::planner {

struct PublishedRow {
  std::string source, gpu, name;  ///< name: the model's
  Machine machine;
  arch::ModelConfig model;
  std::int64_t positions = 0;
  System system;
  Candidate candidate;
  double tokens = 0;  ///< a second and device, measured
  double memory = 0;  ///< bytes of a device, measured; 0: not published

  /// The speed that `by` is predicted to have over the measured one, minus 1.
  double error(const System& by) const;
  double error() const { return error(system); }
  double predicted_tokens(const System& by) const;
  double predicted_memory() const;
  /// The measured share of the device's peak. Recomputed forward passes count.
  double hfu() const;
};

/// The rows of a file. `system`: that of all rows; null: each row's source says it. Rows of fp8 and of offloaded activations are
/// left out and counted. Throws UserError with everything that is wrong. Columns are known by name, in any order:
/// - always: gpu (a preset, "h100_80gb"), gpus, n_layer, n_head, n_embd, vocab, seq, tokens_per_s_per_gpu, and micro_batch or
///   local_batch
/// - with usual values where they are absent: source, model, gpus_per_node, grad_accum or global_batch, n_kv_head, ffn_width (a
///   gated model's), tp
/// - with usual values, too: sharding (FULL_SHARD, SHARD_GRAD_OP), mixed_precision (PURE), recompute, compile, async_tp,
///   memory_gib
struct PublishedFile {
  std::vector<PublishedRow> rows;
  int left_out = 0;
};
PublishedFile published_rows(std::string_view csv, const std::string& name, const System* system);

/// How well predicted rates agree with measured ones. Predictions are a rate per layout, or one constant for all layouts.
struct Score {
  std::size_t rows = 0, within_10 = 0, within_20 = 0;
  double median = 0;  ///< of the errors
};
Score score_of(std::vector<double> errors);
/// The score of one HFU for all rows. It is the row's HFU that most others are within a tenth of.
Score constant_score(const std::vector<const PublishedRow*>& rows);

/// How much slower the planner's first choice is than the best. A choice is several layouts of one model, measured on one
/// machine.
struct Regret {
  std::size_t choices = 0, best = 0;
  double worst = 0;  ///< greatest loss of a choice, from 0 on
};
Regret regret_of(const std::vector<PublishedRow>& rows);

}  // namespace lockstep::planner
