#include "app/settings/source_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "app/settings/keys.h"
#include "arch/config_json.h"
#include "checkpoint/find.h"
#include "checkpoint/huggingface/adapter.h"
#include "checkpoint/huggingface/weights.h"

namespace lockstep::settings {
namespace {

/// What a run may choose whatever the weights are.
constexpr std::array<std::string_view, 5> free_keys = {"model.batch_size", "model.block_size", "model.dropout", "model.init",
                                                       "model.family"};

void assign_shape(app::RunConfig::Model& model, const arch::ModelConfig& shape) {
  if (shape.activation == arch::ActivationKind::none && !shape.gated) {
    throw UserError("the model has no activation function between the matrices of its MLP, which training does not offer",
                    "use it with generate and eval");
  }
  model.n_layer = shape.layers;
  model.n_head = shape.heads;
  model.n_embd = shape.width;
  model.n_kv_head = shape.kv_heads;
  model.head_dim = shape.head_size;
  model.ffn_width = shape.ffn_width;
  model.vocab_size = shape.vocabulary;
  model.activation = {.kind = shape.activation, .gated = shape.gated};
  model.bias = shape.bias;
  model.qkv_bias = shape.qkv_bias;
  model.qk_norm = shape.qk_norm;
  model.qk_norm_whole = shape.qk_norm_whole;
  model.pre_norm = shape.pre_norm;
  model.post_norm = shape.post_norm;
  model.residual_scale = shape.residual_scale;
  model.logit_scale = shape.logit_scale;
  model.norm_unit_offset = shape.unit_offset;
  model.embedding_scale = shape.embedding_scale;
  model.attention_softcap = shape.attention_softcap;
  model.logit_softcap = shape.logit_softcap;
  if (shape.attention_scale > 0) model.attention_scale = shape.attention_scale;
  model.window = shape.window;
  model.global_every = shape.global_every;
  model.tied = shape.tied;
  if (!model.family && !shape.family.empty()) model.family = shape.family;
  model.norm = shape.norm;
  model.norm_eps = std::stod(fmt::format("{}", shape.norm_eps));  // as config.json wrote it
  model.position = shape.position;
  if (shape.position != arch::PositionKind::rope) return;
  model.rope_theta = shape.rope.theta;
  model.rope_skip_every = shape.rope.skip_every;
  model.rope_local_theta = shape.rope.local_theta;
  model.rope_scaling = shape.rope.scaling;
  if (shape.rope.scaling == arch::RopeScaling::none) return;
  model.rope_factor = shape.rope.factor;
  model.rope_low_freq_factor = shape.rope.low_freq_factor;
  model.rope_high_freq_factor = shape.rope.high_freq_factor;
  model.rope_original_block_size = shape.rope.original_block_size;
  const bool longrope = shape.rope.scaling == arch::RopeScaling::longrope;
  if (longrope || shape.rope.scaling == arch::RopeScaling::yarn) model.rope_attention_factor = shape.rope.attention_factor;
  if (longrope) model.rope_short_factors = {shape.rope.short_factors};
  if (longrope) model.rope_long_factors = {shape.rope.long_factors};
}

void assign_adapter(app::RunConfig::Adapter& settings, const arch::Adapter& adapter) {
  settings.rank = adapter.rank;
  settings.alpha = adapter.alpha;
  settings.targets = {adapter.targets};
  settings.whole = adapter.whole;
  settings.rank_stabilised = adapter.rank_stabilised;
}

}  // namespace

bool starts_from_published(const app::RunConfig& config) {
  return app::starts_from_folder(config) && checkpoint::huggingface::is_published(config.train.init_from.text);
}

std::optional<SourceShape> source_shape(const app::RunConfig& config) {
  const std::string& from = config.train.init_from.text;
  SourceShape source{from, starts_from_published(config), {}};
  std::error_code unknown;
  if (source.published) {
    source.model = checkpoint::huggingface::Weights(from).config();
  } else if (app::starts_from_folder(config) && std::filesystem::exists(from, unknown)) {
    const checkpoint::Choice choice = checkpoint::choose_checkpoint(from, "best");
    source.model = arch::model_from_json(choice.manifest.model, choice.folder.string());
  } else {
    return std::nullopt;
  }
  if (const std::optional<std::string>& adapter = config.adapter.init_from) {
    if (source.model.adapter.used()) {
      throw UserError(fmt::format("adapter.init_from = {}: {} has adapters already", *adapter, from),
                      "merge them first (lockstep convert --merge), or leave adapter.init_from out");
    }
    source.model.adapter = checkpoint::huggingface::AdapterFolder(*adapter, source.model).adapter();
  }
  return source;
}

void take_shape(app::RunConfig& config, const SourceShape& source) {
  assign_shape(config.model, source.model);
  if (source.model.adapter.used()) assign_adapter(config.adapter, source.model.adapter);
  const std::int64_t longest = source.model.block_size;
  config.model.block_size = source.published ? std::min(config.model.block_size, longest) : longest;
}

std::vector<Problem> check_shape(const app::RunConfig& config, const SourceShape& source) {
  const arch::ModelConfig& shape = source.model;
  app::RunConfig wanted = config;
  assign_shape(wanted.model, shape);
  if (shape.adapter.used()) assign_adapter(wanted.adapter, shape.adapter);
  std::vector<Problem> problems;
  for (const Key& key : keys()) {
    if ((key.group() != "model" && key.group() != "adapter") ||
        std::find(free_keys.begin(), free_keys.end(), key.name) != free_keys.end())
      continue;
    const std::string given = shown(key.get(config)), there = shown(key.get(wanted));
    if (given != there) {
      problems.push_back(
          {fmt::format("{} = {}: the model in {} has {}", key.name, given, source.folder, there),
           fmt::format("leave it out: the model's shape is taken from its {}", source.published ? "config.json" : "checkpoint")});
    }
  }
  const std::int64_t asked = config.model.block_size, learned = shape.block_size;
  if (shape.position == arch::PositionKind::learned && asked > learned) {
    problems.push_back(
        {fmt::format("model.block_size = {}: the model in {} has learned {} positions", asked, source.folder, learned),
         fmt::format("model.block_size={} or less", learned)});
  }
  return problems;
}

std::string cropping_note(const app::RunConfig& config, const SourceShape& source) {
  const std::int64_t kept = config.model.block_size, learned = source.model.block_size;
  if (source.model.position != arch::PositionKind::learned || kept >= learned) return "";
  return fmt::format("model.block_size = {}: of the {} positions that the model in {} has learned, the first {} are kept", kept,
                     learned, source.folder, kept);
}

}  // namespace lockstep::settings
