#include "app/settings/published_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/settings/keys.h"
#include "checkpoint/huggingface/weights.h"

namespace lockstep::settings {
namespace {

/// What a run may choose whatever the weights are.
constexpr std::array<std::string_view, 4> free_keys = {"model.batch_size", "model.block_size", "model.dropout", "model.init"};

std::string activation_name(const arch::ModelConfig& shape) {
  if (shape.gated) return "swiglu";
  switch (shape.activation) {
    case arch::ActivationKind::gelu:
      return "gelu";
    case arch::ActivationKind::gelu_tanh:
      return "gelu_tanh";
    case arch::ActivationKind::relu:
      return "relu";
    case arch::ActivationKind::silu:
      return "silu";
    case arch::ActivationKind::none:
      break;
  }
  throw UserError("the model has no activation function between the matrices of its MLP, which training does not offer",
                  "use it with generate and eval");
}

void assign_shape(app::RunConfig::Model& model, const arch::ModelConfig& shape) {
  model.n_layer = shape.layers;
  model.n_head = shape.heads;
  model.n_embd = shape.width;
  model.n_kv_head = shape.kv_heads;
  model.head_dim = shape.head_size;
  model.ffn_width = shape.ffn_width;
  model.vocab_size = shape.vocabulary;
  model.activation = activation_name(shape);
  model.bias = shape.bias;
  model.qkv_bias = shape.qkv_bias;
  model.tied = shape.tied;
  model.norm = shape.norm == arch::NormKind::rmsnorm ? "rmsnorm" : "layernorm";
  model.norm_eps = std::stod(fmt::format("{}", shape.norm_eps));  // as config.json wrote it
  model.position = shape.position == arch::PositionKind::rope ? "rope" : "learned";
  if (shape.position != arch::PositionKind::rope) return;
  model.rope_theta = shape.rope.theta;
  model.rope_scaling = shape.rope.scaling == arch::RopeScaling::llama3 ? "llama3" : "none";
  if (shape.rope.scaling == arch::RopeScaling::none) return;
  model.rope_factor = shape.rope.factor;
  model.rope_low_freq_factor = shape.rope.low_freq_factor;
  model.rope_high_freq_factor = shape.rope.high_freq_factor;
  model.rope_original_block_size = shape.rope.original_block_size;
}

}  // namespace

bool starts_from_published(const app::RunConfig& config) {
  const std::string& from = config.train.init_from;
  return from != "scratch" && from != "resume" && checkpoint::huggingface::is_published(from);
}

arch::ModelConfig published_shape(const std::string& path) { return checkpoint::huggingface::Weights(path).config(); }

void take_published_shape(app::RunConfig& config, const arch::ModelConfig& shape) {
  assign_shape(config.model, shape);
  config.model.block_size = std::min(config.model.block_size, shape.block_size);
}

std::vector<Problem> check_published_shape(const app::RunConfig& config, const arch::ModelConfig& shape,
                                           const std::string& path) {
  app::RunConfig wanted = config;
  assign_shape(wanted.model, shape);
  std::vector<Problem> problems;
  for (const Key& key : keys()) {
    if (key.group() != "model" || std::find(free_keys.begin(), free_keys.end(), key.name) != free_keys.end()) continue;
    const std::string given = shown(key.get(config)), there = shown(key.get(wanted));
    if (given != there) {
      problems.push_back({fmt::format("{} = {}: the model in {} has {}", key.name, given, path, there),
                          "leave it out: the model's shape is taken from its config.json"});
    }
  }
  if (shape.position == arch::PositionKind::learned && config.model.block_size > shape.block_size) {
    problems.push_back({fmt::format("model.block_size = {}: the model in {} has learned {} positions", config.model.block_size,
                                    path, shape.block_size),
                        fmt::format("model.block_size={} or less", shape.block_size)});
  }
  return problems;
}

}  // namespace lockstep::settings
