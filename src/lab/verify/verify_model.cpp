#include "lab/verify/verify_model.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/math/elementary.h"
#include "base/rng.h"

namespace lockstep::lab {
namespace {

arch::ModelConfig sizes() {
  arch::ModelConfig config;
  config.layers = 8;
  config.heads = config.kv_heads = 6;
  config.width = 48;
  config.head_size = 8;
  config.ffn_width = 272;
  config.block_size = 72;
  config.vocabulary = 300;
  return config;
}

VerifyModel gpt2() {
  VerifyModel model{.name = "gpt2", .config = sizes(), .grad_clip = 0.5F};
  model.config.bias = model.config.qkv_bias = true;
  model.config.dropout = 0.1F;
  return model;
}

VerifyModel llama() {
  VerifyModel model{.name = "llama", .config = sizes()};
  model.config.kv_heads = 2;
  model.config.norm = arch::NormKind::rmsnorm;
  model.config.position = arch::PositionKind::rope;
  model.config.activation = arch::ActivationKind::silu;
  model.config.gated = true;
  model.config.tied = false;
  return model;
}

/// Llama's parts and those that others add to them.
VerifyModel qwen3() {
  VerifyModel model = llama();
  model.name = "qwen3";
  model.config.head_size = 10;
  model.config.tied = true;
  model.config.qk_norm = true;
  model.config.window = 20;
  model.config.global_every = 4;
  model.config.rope.skip_every = 3;
  return model;
}

/// Norms behind branches, gains of 1 + what is trained, scaled embeddings and scores, caps, two thetas.
VerifyModel gemma3() {
  VerifyModel model = qwen3();
  model.name = "gemma3";
  model.config.activation = arch::ActivationKind::gelu_tanh;
  model.config.post_norm = model.config.unit_offset = true;
  model.config.embedding_scale = 7;
  model.config.attention_scale = 0.1;
  model.config.attention_softcap = 1;
  model.config.logit_softcap = 5;
  model.config.global_every = 3;
  model.config.rope = {.local_theta = 100};
  return model;
}

/// Norms behind branches alone, of all queries and all keys together; scaled branches and logits.
VerifyModel olmo2() {
  VerifyModel model = llama();
  model.name = "olmo2";
  model.config.qk_norm = model.config.qk_norm_whole = true;
  model.config.pre_norm = false;
  model.config.post_norm = true;
  model.config.residual_scale = 0.7;
  model.config.logit_scale = 0.5;
  // In bf16 one rank's own gradients of these norms are 5e-2 away from those in fp32 (llama's furthest: 1.4e-2).
  model.bf16_tolerance = 6e-2;
  return model;
}

/// Adapters beside all matrices, which alone are trained.
VerifyModel lora() {
  VerifyModel model = llama();
  model.name = "lora";
  model.config.adapter = {.rank = 4, .alpha = 8};
  // Gradients of q and k stand by themselves here. They are a small difference of large numbers, of which bf16 leaves less.
  model.bf16_tolerance = 6e-2;
  return model;
}

/// The `lora` model with the token table and the head's matrix trained whole.
VerifyModel lora_whole() {
  VerifyModel model = lora();
  model.name = "lora_whole";
  model.config.adapter.whole = arch::WholeEnds::both;
  return model;
}

/// Pairs of samples, of which one is preferred.
VerifyModel dpo() {
  VerifyModel model = llama();
  model.name = "dpo";
  model.samples = 4;
  model.objective = {.kind = train::Objective::dpo, .beta = 0.1, .label_smoothing = 0.1};
  return model;
}

struct NamedModel {
  std::string_view name;
  VerifyModel (*make)();
};
constexpr std::array<NamedModel, 8> models{{{"gpt2", gpt2},
                                            {"llama", llama},
                                            {"qwen3", qwen3},
                                            {"gemma3", gemma3},
                                            {"olmo2", olmo2},
                                            {"lora", lora},
                                            {"lora_whole", lora_whole},
                                            {"dpo", dpo}}};

}  // namespace

VerifyModel verify_model(std::string_view name, DType type, const std::string& optimizer) {
  const auto found = std::ranges::find(models, name, &NamedModel::name);
  ensure(found != models.end(), "a model is one of verify_model_names()");
  VerifyModel model = found->make();
  model.weights.type = type;
  model.optimizer.name = optimizer;
  model.optimizer.momentum = 0.9F;
  return model;
}

std::vector<std::string> verify_model_names() {
  std::vector<std::string> names;
  for (const NamedModel& model : models) names.emplace_back(model.name);
  return names;
}

VerifyBatches::VerifyBatches(const VerifyModel& model, const Place& place) {
  const std::int64_t positions = model.positions, rows = model.samples * positions;
  const CounterRng rng(model.seed, "verify.tokens");
  const auto pairs = train::make_sample_loss(model.objective);
  const auto vocabulary = static_cast<std::uint64_t>(model.config.vocabulary);
  const std::int64_t first_sample = (place.step * place.all + place.first) * model.samples;
  for (std::int64_t sample = first_sample; sample < first_sample + place.count * model.samples; ++sample) {
    const std::int64_t prompt = 13 * sample % (positions / 2 + 1);
    for (std::int64_t position = 0; position < positions; ++position) {
      const auto token = [&](std::int64_t at) {
        const std::uint64_t id = rng.below(vocabulary, static_cast<std::uint64_t>(sample * (positions + 1) + at));
        return id % 12 == 5 ? document_end : static_cast<std::int32_t>(id);
      };
      tokens_.push_back(token(position));
      targets_.push_back(position < prompt ? -1 : token(position + 1));
    }
    const double noise = 0.02 * rng.uniform(static_cast<std::uint64_t>(sample), 1);
    references_.push_back(-(0.99 + noise) * static_cast<double>(positions - prompt) *
                          logarithm(static_cast<double>(model.config.vocabulary)));
  }
  for (std::int64_t m = 0; m < place.count; ++m) {
    data::Batch batch;
    batch.tokens = view(std::span(tokens_), Shape{std::ssize(tokens_)}).flat(m * rows, rows);
    batch.targets = view(std::span(targets_), Shape{std::ssize(targets_)}).flat(m * rows, rows);
    batch.samples = model.samples;
    batch.positions = positions;
    for (const std::int32_t target : elements<std::int32_t>(batch.targets)) batch.target_count += target >= 0 ? 1 : 0;
    batch.first_sample = static_cast<std::uint64_t>(first_sample + m * model.samples);
    if (pairs) {
      batch.references = view(std::span(references_), Shape{std::ssize(references_)}).flat(m * model.samples, model.samples);
      batch.target_count = model.samples / pairs->together();
    }
    batches_.push_back(batch);
  }
}

std::int64_t VerifyBatches::targets() const {
  std::int64_t sum = 0;
  for (const data::Batch& batch : batches_) sum += batch.target_count;
  return sum;
}

}  // namespace lockstep::lab
