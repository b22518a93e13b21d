#pragma once

// Rows of throughputs that others published, as a CSV file has them, and what the planner says of the same layouts.

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

  /// How much faster than measured `by` is predicted to be, from -1 on.
  double error(const System& by) const;
  double error() const { return error(system); }
  double predicted_tokens(const System& by) const;
  double predicted_memory() const;
  /// The share of the device's peak that was measured. A forward pass that is run again counts.
  double hfu() const;
};

/// What a file says. `system`: that of all rows; null: the one that their source says. Rows of fp8 and of offloaded activations
/// are left out and counted. Throws UserError with everything that is wrong. Columns are known by name, in any order:
/// - always: gpu (a preset, "h100_80gb"), gpus, n_layer, n_head, n_embd, vocab, seq, tokens_per_s_per_gpu, and micro_batch or
///   local_batch
/// - where they are not the usual ones: source, model, gpus_per_node, grad_accum or global_batch, n_kv_head, ffn_width (a gated
///   model's), tp
/// - likewise: sharding (FULL_SHARD, SHARD_GRAD_OP), mixed_precision (PURE), recompute, compile, async_tp, memory_gib
struct PublishedFile {
  std::vector<PublishedRow> rows;
  int left_out = 0;
};
PublishedFile published_rows(std::string_view csv, const std::string& name, const System* system);

/// How well a rate per layout, or one constant for all of them, tells measured rates.
struct Score {
  std::size_t rows = 0, within_10 = 0, within_20 = 0;
  double median = 0;  ///< error
};
Score score_of(std::vector<double> errors);
/// One HFU for all: the one of theirs that most are within a tenth of.
Score constant_score(const std::vector<const PublishedRow*>& rows);

/// Where several layouts of one model were measured on one machine: how much slower the one that the planner puts first is than
/// the best.
struct Regret {
  std::size_t choices = 0, best = 0;
  double worst = 0;  ///< from 0 on
};
Regret regret_of(const std::vector<PublishedRow>& rows);

}  // namespace lockstep::planner
