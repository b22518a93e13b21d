// What the model is, and what is trained beside it.

#include <algorithm>
#include <iterator>

#include "app/settings/entry.h"

namespace lockstep::settings {
namespace {

using app::RunConfig;
using Model = RunConfig::Model;
using Adapter = RunConfig::Adapter;

template <auto kMember>
Key model(std::string_view name, Rule rule, OnResume mark, std::string_view unit, std::string_view meaning,
          bool in_wordplay = true) {
  return key<&RunConfig::model, kMember>(name, std::move(rule), mark, unit, meaning, in_wordplay);
}

// The sizes and parts that most models have.
std::vector<Key> size_keys() {
  const Rule any = Rule::any();
  return {
      model<&Model::n_layer>("model.n_layer", Rule::between(1, 10000), fixed, "", "transformer blocks"),
      model<&Model::n_head>("model.n_head", Rule::between(1, 10000), fixed, "",
                            "attention heads; they divide model.n_embd unless model.head_dim is set"),
      model<&Model::n_embd>("model.n_embd", Rule::between(1, 1 << 20), fixed, "", "width of the model"),
      model<&Model::batch_size>("model.batch_size", Rule::between(1, 1 << 20), loose, "sequences", "micro-batch of each rank"),
      model<&Model::block_size>("model.block_size", Rule::between(1, 1 << 20), fixed, "tokens",
                                "length of a sequence, the model's longest context"),
      model<&Model::activation>("model.activation", any, fixed, "", "the MLP's activation; gelu is the exact one"),
      model<&Model::dropout>("model.dropout", Rule::below(0, 1), learns, "",
                             "share dropped of embedding, attention weights and residual"),
      model<&Model::bias>("model.bias", any, fixed, "", "biases in norms and products"),
      model<&Model::vocab_size>("model.vocab_size", Rule::between(2, 2147483647), fixed, "tokens",
                                "size of the vocabulary; null: the data's"),
      model<&Model::qkv_bias>("model.qkv_bias", any, fixed, "", "bias of query, key and value; null: as model.bias", false),
      model<&Model::tied>("model.tied", any, fixed, "", "the head uses the token table", false),
      model<&Model::init>(
          "model.init", any, fixed, "",
          "start of the weights: normal of deviation 0.02; as PyTorch; sqrt(2 / (5 n_embd)); sqrt(1 / (3 n_embd))", false),
      model<&Model::norm>("model.norm", any, fixed, "", "how activations are normalised", false),
      model<&Model::norm_eps>("model.norm_eps", Rule::above(0, 1), fixed, "", "added to the variance", false),
      model<&Model::n_kv_head>("model.n_kv_head", Rule::between(1, 10000), fixed, "",
                               "key/value heads, each shared by n_head / n_kv_head heads; null: model.n_head", false),
      model<&Model::head_dim>("model.head_dim", Rule::between(1, 256), fixed, "",
                              "features of a head; null: model.n_embd / model.n_head", false),
      model<&Model::ffn_width>("model.ffn_width", Rule::between(1, 1 << 22), fixed, "",
                               "width of the MLP; null: 4 n_embd, or with swiglu 8/3 n_embd in multiples of 256", false),
  };
}

std::vector<Key> position_keys() {
  const Rule any = Rule::any();
  return {
      model<&Model::position>("model.position", any, fixed, "", "a table of positions, or queries and keys turned by theirs",
                              false),
      model<&Model::rope_theta>("model.rope_theta", Rule::above(1, kMany), fixed, "", "rope: base of the wavelengths", false),
      model<&Model::rope_scaling>("model.rope_scaling", any, fixed, "", "rope: how long waves are stretched", false),
      model<&Model::rope_factor>("model.rope_factor", Rule::between(1, kMany), fixed, "",
                                 "rope_scaling: long waves are so much longer", false),
      model<&Model::rope_low_freq_factor>("model.rope_low_freq_factor", Rule::above(0, kMany), fixed, "",
                                          "llama3, yarn (beta_slow): waves are long that fit in fewer times", false),
      model<&Model::rope_high_freq_factor>("model.rope_high_freq_factor", Rule::above(0, kMany), fixed, "",
                                           "llama3, yarn (beta_fast): waves stay that fit more often into it; null: 4, yarn 32",
                                           false),
      model<&Model::rope_original_block_size>("model.rope_original_block_size", Rule::between(1, 1 << 30), fixed, "tokens",
                                              "llama3, yarn, longrope: the original context", false),
      model<&Model::rope_attention_factor>("model.rope_attention_factor", Rule::above(0, kMany), fixed, "",
                                           "yarn, longrope: queries and keys are so much longer; null: as their papers say",
                                           false),
      model<&Model::rope_short_factors>("model.rope_short_factors", any, fixed, "",
                                        "longrope: divisors of the pairs' frequencies within the original context", false),
      model<&Model::rope_long_factors>("model.rope_long_factors", any, fixed, "",
                                       "longrope: the same where model.block_size is beyond it", false),
      model<&Model::rope_skip_every>("model.rope_skip_every", Rule::between(0, 10000), fixed, "layers",
                                     "rope: every so many layers one turns nothing; 0: none", false),
      model<&Model::rope_local_theta>("model.rope_local_theta", Rule::between(0, kMany), fixed, "",
                                      "rope: base of layers that see a window alone, not scaled; 0: rope_theta", false),
  };
}

// What few families have.
std::vector<Key> family_keys() {
  const Rule any = Rule::any();
  return {
      model<&Model::qk_norm>("model.qk_norm", any, fixed, "", "RMSNorm of each head's queries and keys before they are turned",
                             false),
      model<&Model::qk_norm_whole>("model.qk_norm_whole", any, fixed, "",
                                   "qk_norm: of all heads' queries together, and of all keys, as OLMo 2", false),
      model<&Model::pre_norm>("model.pre_norm", any, fixed, "",
                              "a norm before attention and before the feed-forward layer; OLMo 2 has none", false),
      model<&Model::post_norm>("model.post_norm", any, fixed, "",
                               "a norm behind attention and behind the feed-forward layer too, as Gemma 3", false),
      model<&Model::norm_unit_offset>("model.norm_unit_offset", any, fixed, "",
                                      "rmsnorm: gains are 1 + what is trained, as Gemma", false),
      model<&Model::embedding_scale>("model.embedding_scale", Rule::above(0, kMany), fixed, "",
                                     "rope: rows of tokens are so much longer; Gemma has sqrt(model.n_embd)", false),
      model<&Model::residual_scale>("model.residual_scale", Rule::above(0, kMany), fixed, "",
                                    "what attention and the feed-forward layer give is multiplied by it, as Granite", false),
      model<&Model::logit_scale>("model.logit_scale", Rule::above(0, kMany), fixed, "",
                                 "logits are multiplied by it; Granite has 1 / logits_scaling", false),
      model<&Model::attention_scale>("model.attention_scale", Rule::above(0, kMany), fixed, "",
                                     "factor of attention's scores; null: 1 / sqrt(model.head_dim)", false),
      model<&Model::attention_softcap>("model.attention_softcap", Rule::between(0, kMany), fixed, "",
                                       "attention's scores x become this times tanh(x / this), as Gemma 2; 0: they stay", false),
      model<&Model::logit_softcap>("model.logit_softcap", Rule::between(0, kMany), fixed, "", "the same of logits", false),
      model<&Model::window>("model.window", Rule::between(0, 1 << 30), fixed, "tokens",
                            "keys that a query sees at most, its own among them; 0: all before it", false),
      model<&Model::global_every>("model.global_every", Rule::between(0, 10000), fixed, "layers",
                                  "window: every so many layers one sees beyond it; 0: none", false),
      model<&Model::family>("model.family", any, loose, "",
                            "the family that convert writes (llama, mistral, phi3, ...); null: as its parts say", false),
  };
}

}  // namespace

std::vector<Key> model_keys() {
  std::vector<Key> keys = size_keys();
  std::ranges::move(position_keys(), std::back_inserter(keys));
  std::ranges::move(family_keys(), std::back_inserter(keys));
  return keys;
}

std::vector<Key> adapter_keys() {
  return {
      key<&RunConfig::adapter, &Adapter::rank>("adapter.rank", Rule::between(0, 65536), fixed, "",
                                               "features of low-rank matrices (LoRA) that are trained beside the model's, which "
                                               "stay as they are; 0: the model is trained",
                                               false),
      key<&RunConfig::adapter, &Adapter::alpha>("adapter.alpha", Rule::above(0, 1e9), fixed, "",
                                                "what they add is multiplied by adapter.alpha / adapter.rank", false),
      key<&RunConfig::adapter, &Adapter::targets>(
          "adapter.targets", Rule::any(), fixed, "",
          "matrices that get one: all, attention (q,k,v,o), mlp (gate,up,down), or some of these with commas between", false),
      key<&RunConfig::adapter, &Adapter::whole>(
          "adapter.whole", Rule::any(), fixed, "",
          "ends of the model that are trained whole beside its adapters, for tokens that are new to it (modules_to_save)", false),
      key<&RunConfig::adapter, &Adapter::rank_stabilised>(
          "adapter.rank_stabilised", Rule::any(), fixed, "",
          "multiply by adapter.alpha / sqrt(adapter.rank) (rsLoRA), for high ranks", false),
      key<&RunConfig::adapter, &Adapter::init_from>("adapter.init_from", Rule::any(), loose, "",
                                                    "a folder of PEFT's with the adapter that training goes on with, whose other "
                                                    "settings it has; null: one that adds nothing",
                                                    false),
  };
}

}  // namespace lockstep::settings
