#include "app/settings/run_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "app/settings/backends.h"
#include "app/settings/config_file.h"
#include "app/settings/keys.h"
#include "layout/parallel_plan.h"

namespace lockstep::app {
namespace {

arch::Rope rope_of(const RunConfig::Model& model) {
  arch::Rope rope;
  rope.theta = model.rope_theta;
  rope.scaling = model.rope_scaling;
  rope.factor = model.rope_factor;
  rope.low_freq_factor = model.rope_low_freq_factor;
  const bool yarn = rope.scaling == arch::RopeScaling::yarn;
  rope.high_freq_factor = model.rope_high_freq_factor.value_or(yarn ? 32 : 4);
  rope.original_block_size = model.rope_original_block_size;
  if (rope.scaling == arch::RopeScaling::longrope) {
    rope.attention_factor =
        model.rope_attention_factor.value_or(arch::usual_longrope_length(rope.factor, rope.original_block_size));
    rope.short_factors = model.rope_short_factors.value_or(Factors{}).values;
    rope.long_factors = model.rope_long_factors.value_or(Factors{}).values;
  }
  if (yarn) rope.attention_factor = model.rope_attention_factor.value_or(arch::usual_attention_factor(rope.factor));
  rope.skip_every = model.rope_skip_every;
  rope.local_theta = model.rope_local_theta;
  return rope;
}

}  // namespace

DType dtype_of(const RunConfig& config) { return config.train.dtype.type; }

const std::vector<std::string>& dtype_spellings() {
  static const std::vector<std::string> all{"fp32", "float32", "bf16", "bfloat16"};
  return all;
}

DType dtype_from_spelling(std::string_view spelling) {
  return spelling == "bf16" || spelling == "bfloat16" ? DType::bf16 : DType::f32;
}

DType moments_of(const RunConfig& config) {
  if (config.optimizer.moments) return *config.optimizer.moments;
  return config.optimizer.master_weights ? DType::f32 : dtype_of(config);
}

std::string_view spelt(DType type) { return type == DType::bf16 ? "bfloat16" : "float32"; }

ops::PlainKernels plain_kernels_of(const RunConfig& config) {
  const RunConfig::Kernels& kernels = config.kernels;
  return {.products = kernels.products == ProductKernel::plain,
          .epilogues = !kernels.epilogues,
          .norm = kernels.norm == NormKernel::plain,
          .adamw = kernels.adamw == AdamWKernel::tensor};
}

layout::AttentionWeights attention_of(const RunConfig& config) {
  if (config.kernels.attention == AttentionKernel::tiled) return layout::AttentionWeights::tiled;
  return config.kernels.mask == MaskKernel::stored ? layout::AttentionWeights::masked : layout::AttentionWeights::whole;
}

data::Order order_of(const RunConfig& config) { return config.train.max_epochs ? data::Order::partition : config.data.order; }

std::uint64_t seed_of(const RunConfig& config) { return static_cast<std::uint64_t>(config.train.seed.value_or(1337)); }

bool makes_copies(const RunConfig& config) {
  return config.checkpoint.copies == CopiesTo::neighbour && config.checkpoint.seconds && !config.train.eval_only;
}

std::int64_t checkpoint_interval(const RunConfig& config) {
  return config.checkpoint.interval.value_or(config.train.eval_interval);
}

bool offloads_to_disk(const RunConfig& config) {
  const RunConfig::Memory& memory = config.memory;
  const std::array all{memory.offload_optimizer, memory.offload_params, memory.offload_activations};
  return std::ranges::find(all, OffloadTo::nvme) != all.end();
}

layout::PlanWish plan_wish(const RunConfig& config) {
  return {.parallel = static_cast<const layout::ParallelWish&>(config.parallel),
          .memory = static_cast<const layout::MemoryWish&>(config.memory),
          .gas = config.optimizer.gas,
          .canonical = config.numerics.canonical};
}

void set_plan_wish(RunConfig& config, const layout::PlanWish& wish) {
  static_cast<layout::ParallelWish&>(config.parallel) = wish.parallel;
  static_cast<layout::MemoryWish&>(config.memory) = wish.memory;
  config.optimizer.gas = wish.gas;
  config.numerics.canonical = wish.canonical;
}

int zero_level(const RunConfig& config) {
  return static_cast<int>(config.memory.zero.value_or(settings::find_backend(config.train.backend).zero));
}

std::int64_t tokens_per_iteration(const RunConfig& config, std::int64_t ranks) {
  return config.optimizer.gas * ranks * config.model.batch_size * config.model.block_size;
}

std::string data_folder(const RunConfig& config) {
  return config.data.dir.value_or(config.data.root_path.value_or("data") + "/" + config.data.dataset);
}

bool may_resume(const RunConfig& config) {
  const InitFrom::Kind kind = config.train.init_from.kind;
  return kind == InitFrom::Kind::resume || kind == InitFrom::Kind::automatic;
}

bool starts_from_folder(const RunConfig& config) { return config.train.init_from.kind == InitFrom::Kind::folder; }

std::string run_folder(const RunConfig& config, std::string_view generated_name) {
  return config.log.dir.value_or("runs/" + config.log.name.value_or(std::string(generated_name)));
}

arch::ModelConfig model_config(const RunConfig& config, std::int64_t vocabulary) {
  const RunConfig::Model& model = config.model;
  arch::ModelConfig out;
  out.layers = model.n_layer;
  out.heads = model.n_head;
  out.kv_heads = model.n_kv_head.value_or(model.n_head);
  out.width = model.n_embd;
  out.head_size = model.head_dim.value_or(model.n_embd / model.n_head);
  out.gated = model.activation.gated;
  out.ffn_width = model.ffn_width.value_or(arch::usual_ffn_width(model.n_embd, out.gated));
  out.block_size = model.block_size;
  out.vocabulary = model.vocab_size.value_or(vocabulary);
  out.norm = model.norm;
  out.norm_eps = static_cast<float>(model.norm_eps);
  out.position = model.position;
  if (out.position == arch::PositionKind::rope) out.rope = rope_of(model);
  out.activation = model.activation.kind;
  out.init = model.init;
  out.bias = model.bias;
  out.qkv_bias = model.qkv_bias.value_or(model.bias);
  out.qk_norm = model.qk_norm;
  out.qk_norm_whole = model.qk_norm_whole;
  out.pre_norm = model.pre_norm;
  out.post_norm = model.post_norm;
  out.residual_scale = model.residual_scale;
  out.logit_scale = model.logit_scale;
  out.unit_offset = model.norm_unit_offset;
  out.embedding_scale = model.embedding_scale;
  out.attention_scale = model.attention_scale.value_or(0);
  out.attention_softcap = model.attention_softcap;
  out.logit_softcap = model.logit_softcap;
  out.window = model.window;
  out.global_every = model.global_every;
  out.tied = model.tied;
  out.family = model.family.value_or("");
  out.adapter = {.rank = config.adapter.rank,
                 .alpha = config.adapter.alpha,
                 .rank_stabilised = config.adapter.rank_stabilised,
                 .targets = config.adapter.targets.set,
                 .whole = config.adapter.whole};
  out.dropout = static_cast<float>(model.dropout);
  return out;
}

double lr_factor(const RunConfig& config, std::int64_t ranks) {
  if (config.optimizer.lr_scaling == LrScaling::linear) return static_cast<double>(ranks);
  if (config.optimizer.lr_scaling == LrScaling::sqrt) return std::sqrt(static_cast<double>(ranks));
  return 1;
}

bool logs_from_all_ranks(const RunConfig& config) {
  const char* wanted = std::getenv("LOG_FROM_ALL_RANKS");
  return config.log.all_ranks || (wanted != nullptr && std::string_view(wanted) == "1");
}

bool keeps_wandb_history(const RunConfig& config) {
  const char* disabled = std::getenv("WANDB_DISABLED");
  const std::string_view said = disabled != nullptr ? disabled : "";
  const bool off = !said.empty() && said != "0" && said != "false" && said != "False";
  return config.log.wandb == WandbMode::offline && config.train.use_wandb && !off;
}

Json to_json(const RunConfig& config, std::int64_t vocabulary, bool wordplay_keys_only) {
  Json out;
  for (const settings::Group& group : settings::groups()) {
    Json members;
    for (const settings::Key& key : settings::keys()) {
      if (key.group() != group.name || (wordplay_keys_only && !key.in_wordplay)) continue;
      const bool replaced = key.name == "model.vocab_size" && vocabulary > 0;
      members.set(std::string(key.option()), replaced ? Json(vocabulary) : key.get(config));
    }
    if (!members.is_null()) out.set(std::string(group.name), std::move(members));
  }
  return out;
}

std::string to_toml(const RunConfig& config) {
  std::string out = fmt::format("{} Read them again with: lockstep train --config FILE\n", settings_file_start);
  const RunConfig unsaid;
  for (const settings::Group& group : settings::groups()) {
    std::string lines;
    for (const settings::Key& key : settings::keys()) {
      if (key.group() != group.name) continue;
      const Json value = key.get(config);
      // A default that decides what is learned is written, since a later version may have another.
      const bool needless = value.is_null() || key.on_resume == settings::OnResume::may_change;
      if (needless && value.dump() == key.get(unsaid).dump()) continue;
      lines += fmt::format("{} = {}\n", key.option(), value.is_null() ? "\"null\"" : value.dump());
    }
    if (!lines.empty()) out += fmt::format("\n[{}]\n{}", group.name, lines);
  }
  return out;
}

}  // namespace lockstep::app
