#pragma once

// Megatron-LM's arguments (core 0.20), as far as the planner knows them: one table, which writes them and reads them.

#include <span>
#include <string_view>
#include <vector>

namespace lockstep::app::megatron {

/// A value as Megatron-LM and as our setting has it.
struct Word {
  std::string_view theirs, ours;
};

/// An argument that is one of our settings.
struct Argument {
  enum class Use { both, written, read };
  std::string_view name, key;  ///< "--num-layers", "model.n_layer"
  Use use = Use::both;
  std::string_view on = {};         ///< of a flag: the setting's value with it; empty: the argument has a value
  std::string_view off = {};        ///< the setting's value without it; empty: the argument is always written
  std::vector<Word> words = {};     ///< empty: values are the same
  std::string_view beside = {};     ///< a flag without which it says nothing
  std::string_view only_with = {};  ///< a setting; where that is 1 it is not written
};
std::span<const Argument> arguments();

/// Arguments that say something together with others.
inline constexpr std::string_view global_batch = "--global-batch-size", granularity = "--recompute-granularity",
                                  method = "--recompute-method", uniform = "uniform", together = "--recompute-num-layers",
                                  selective = "--recompute-activations",
                                  virtual_stages = "--num-virtual-stages-per-pipeline-rank",
                                  virtual_layers = "--num-layers-per-virtual-pipeline-stage",
                                  stages = "--pipeline-model-parallel-layout", distributed = "--use-distributed-optimizer",
                                  fsdp = "--use-megatron-fsdp", fsdp2 = "--use-torch-fsdp2",
                                  sharding = "--data-parallel-sharding-strategy", attention = "--attention-backend",
                                  hides_sums = "--overlap-grad-reduce", hides_tensor_sums = "--tp-comm-overlap",
                                  waits_for_messages = "--no-overlap-p2p-communication", short_sums = "--grad-reduce-in-bf16",
                                  nodes = "--nnodes", devices = "--nproc-per-node", layers = "--num-layers",
                                  rotary = "--use-rotary-position-embeddings", tensor_ranks = "--tensor-model-parallel-size",
                                  pipeline_ranks = "--pipeline-model-parallel-size", padding = "--make-vocab-size-divisible-by";

/// Why a model with the argument `name` cannot be told here at all; empty: nothing is against it.
std::string_view reason_against(std::string_view name);
/// Whether the argument changes neither time nor memory, as far as the planner tells them.
bool is_harmless(std::string_view name);
/// Whether Megatron-LM has the argument, and it changes time or memory by what the planner does not know.
bool is_uncounted(std::string_view name);

/// Settings of models that have no argument there.
std::span<const std::string_view> missing_settings();

}  // namespace lockstep::app::megatron
