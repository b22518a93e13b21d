#pragma once

// The models that `verify` trains: small, with every part that a layout divides, and with made-up text. All of it is a function
// of numbers, the same for every layout.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arch/config.h"
#include "arch/shard_rules.h"
#include "data/batch.h"
#include "parallel/parameter_store.h"
#include "train/objective/objective.h"
#include "train/optimizer/optimizer.h"

namespace lockstep::lab {

struct VerifyModel {
  std::string name;
  arch::ModelConfig config;
  parallel::WeightStorage weights = {};
  train::OptimizerSettings optimizer = {};
  float grad_clip = 0;
  double learning_rate = 3e-3;
  std::int64_t samples = 2, positions = 72;  ///< of a micro-batch
  std::uint64_t seed = 1337;
  train::ObjectiveSettings objective = {};
  double fp32_tolerance = 1e-5;  ///< of losses and gradients where sums have another order
  double bf16_tolerance = 2e-2;  ///< likewise in bf16

  /// How far a layout may divide this model.
  layout::PlanLimits limits() const { return arch::plan_limits(config, positions); }
};

/// "gpt2": biases, learned positions, a tied head, dropout, clipping. "llama": key/value heads shared by query heads, rotary
/// positions, a gate, a head of its own. "qwen3": llama with norms of heads, a window in three of four layers, no rotation in
/// every third, a tied head. "gemma3": qwen3 with norms behind branches, caps and two thetas. "olmo2": norms behind
/// branches alone, norms of all queries, scaled branches. "lora": llama with adapters beside all matrices, which alone are
/// trained; "lora_whole" trains the token table and the head, too. "dpo": llama on pairs of samples, of which one is preferred.
/// All have 8 blocks, and sums longer than the blocks of 256, 64 and 16 in which kernels add. `optimizer`: as optimizer.name has
/// it.
VerifyModel verify_model(std::string_view name, DType type, const std::string& optimizer = "AdamW");
std::vector<std::string> verify_model_names();

/// Micro-batches [first, first + count) of a step of `all` micro-batches; they own their memory. Samples are random tokens behind
/// a prompt, which is no target. Prompts differ in length, so that ranks have different numbers of targets. One token in twelve
/// or so ends a document. References of pairs are near to what a model of random weights gives.
class VerifyBatches {
 public:
  static constexpr std::int32_t document_end = 0;
  struct Place {
    std::int64_t step = 0;
    int first = 0, count = 1, all = 1;
  };
  VerifyBatches(const VerifyModel& model, const Place& place);
  VerifyBatches(const VerifyBatches&) = delete;
  VerifyBatches& operator=(const VerifyBatches&) = delete;

  std::span<data::Batch> all() { return batches_; }
  std::int64_t targets() const;

 private:
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<double> references_;  // of pairs
  std::vector<data::Batch> batches_;
};

}  // namespace lockstep::lab
