#pragma once

// What a model is: sizes and parts. The parts are values, chosen by configuration; tables (arch/parameters) and the model's
// constructors read them, the training step does not.

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "layout/sharded_dims.h"

namespace lockstep::arch {

enum class NormKind : std::uint8_t { layernorm, rmsnorm };
enum class PositionKind : std::uint8_t { learned, rope };
/// What comes between the products of the feed-forward layer. gelu is the exact one (erf).
enum class ActivationKind : std::uint8_t { none, gelu, gelu_tanh, relu, silu };
/// How rotary angles were stretched for a longer context. All are stretched alike by `linear`. The base of `dynamic` grows beyond
/// the context only, so that within it nothing changes. Llama 3.1 stretches by wavelength (`llama3`). YaRN is described by Peng
/// et al. 2023, and LongRoPE, which has a factor for each pair, by Ding et al. 2024.
enum class RopeScaling : std::uint8_t { none, linear, dynamic, llama3, yarn, longrope };
/// How weights start. gpt2 is normal(0, 0.02), with residual projections / sqrt(2 layers) (Radford et al. 2019). The others of
/// its form, small and smaller, have a deviation that falls with the width C, so that wide models diverge less. It is sqrt(2 / (5
/// C)) for small (Nguyen and Salazar 2019), and sqrt(1 / (3 C)) for smaller (Smith et al. 2022, MT-NLG 530B). PyTorch's Linear
/// and Embedding start as pytorch does: uniform in +-1/sqrt(in-features), normal(0, 1).
enum class InitKind : std::uint8_t { gpt2, pytorch, small, smaller };

/// Rotary positions (arch/rotary computes the angles).
struct Rope {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 8;
  // llama3 and yarn: waves that fit less than low_freq_factor times into the original context grow by factor. Those that fit more
  // than high_freq_factor times stay. yarn calls the two beta_slow and beta_fast.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_block_size = 8192;
  double attention_factor = 1;  ///< of yarn and longrope: queries and keys are so much longer
  /// The divisors of each pair's frequency for longrope, where the context is no longer than the original one, and beyond.
  std::vector<double> short_factors = {}, long_factors = {};
  std::int64_t skip_every = 0;  ///< every so many layers one turns nothing (SmolLM3); 0: none does
  /// theta of layers that see the window alone, whose angles are not scaled (Gemma 3); 0: they are as the others.
  double local_theta = 0;

  friend bool operator==(const Rope&, const Rope&) = default;
};

/// Matrices of a block beside which an adapter may be.
enum class AdapterTarget : std::uint8_t { query, key, value, out, gate, up, down, count };
/// A set of adapter targets, a bit each.
using AdapterTargets = std::uint8_t;
constexpr AdapterTargets bit_of(AdapterTarget target) { return static_cast<AdapterTargets>(1U << static_cast<unsigned>(target)); }
inline constexpr AdapterTargets all_targets = (1U << static_cast<unsigned>(AdapterTarget::count)) - 1;

/// Ends of a model that are trained whole beside its adapters (PEFT's modules_to_save): the token table, the head's matrix. A
/// tied model has one matrix for both.
enum class WholeEnds : std::uint8_t { none, embeddings, head, both };

/// Low-rank matrices that are trained in the place of the model's (arch/adapter).
struct Adapter {
  std::int64_t rank = 0;         ///< r; 0: there are none, and the model itself is trained
  double alpha = 16;             ///< what they add is multiplied by alpha / r
  bool rank_stabilised = false;  ///< by alpha / sqrt(r) (Kalajdzievski 2023)
  AdapterTargets targets = all_targets;
  WholeEnds whole = WholeEnds::none;

  bool trains_embeddings() const { return whole == WholeEnds::embeddings || whole == WholeEnds::both; }
  bool trains_head() const { return whole == WholeEnds::head || whole == WholeEnds::both; }
  bool used() const { return rank > 0; }
  bool on(AdapterTarget target) const { return (targets & bit_of(target)) != 0; }
  double scale() const;
  friend bool operator==(const Adapter&, const Adapter&) = default;
};

struct ModelConfig {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 12;
  std::int64_t width = 768;        ///< C
  std::int64_t head_size = 64;     ///< D
  std::int64_t ffn_width = 3072;   ///< F
  std::int64_t block_size = 1024;  ///< longest context, T
  std::int64_t vocabulary = 50304;
  NormKind norm = NormKind::layernorm;
  PositionKind position = PositionKind::learned;
  Rope rope;  ///< of PositionKind::rope
  ActivationKind activation = ActivationKind::gelu;
  bool gated = false;  ///< down(activation(gate(x)) * up(x)); with silu: SwiGLU
  InitKind init = InitKind::gpt2;
  bool bias = false;              ///< biases of norms and products, but for q, k, v
  bool qkv_bias = false;          ///< biases of q, k, v
  bool qk_norm = false;           ///< RMSNorm of each head's queries and keys, before they are turned (Qwen3)
  bool qk_norm_whole = false;     ///< with qk_norm: of all heads' queries together, and of all keys (OLMo 2)
  bool pre_norm = true;           ///< a norm before attention and before the feed-forward layer; OLMo 2 has none
  bool post_norm = false;         ///< a norm behind attention and behind the feed-forward layer, too (Gemma 3)
  bool unit_offset = false;       ///< RMSNorm has 1 + gain for a gain (Gemma)
  double embedding_scale = 1;     ///< rows of tokens are so much longer (Gemma: sqrt(C))
  double residual_scale = 1;      ///< what a branch gives is so much longer when it is added (Granite)
  double logit_scale = 1;         ///< logits are so much longer, before they are capped (Granite: 1 / logits_scaling)
  double attention_scale = 0;     ///< factor of scores; 0: 1 / sqrt(D)
  double attention_softcap = 0;   ///< scores x become cap tanh(x / cap) (Gemma 2); 0: they stay
  double logit_softcap = 0;       ///< logits x become cap tanh(x / cap); 0: they stay
  std::int64_t window = 0;        ///< so many keys a query sees at most, its own among them; 0: all before it
  std::int64_t global_every = 0;  ///< every so many layers one layer sees beyond the window; 0: none does
  bool tied = true;               ///< the head uses the token table
  float dropout = 0;
  float norm_eps = 1e-5F;
  Adapter adapter = {};
  std::string family = {};  ///< as which it is published where its parts do not say ("phi3"); empty: they do

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Whether a layer turns queries and keys by their position.
bool turns(const ModelConfig& config, int layer);
/// Whether some layers see less than all of `positions`.
inline bool has_window(const ModelConfig& config, std::int64_t positions) {
  return config.window > 0 && config.window < positions;
}
/// Whether a layer sees the window alone.
bool sees_window(const ModelConfig& config, std::int64_t layer);
/// Whether some layers turn by another theta than the rest.
bool has_local_theta(const ModelConfig& config);
/// The keys that a query of a layer sees at most, of `positions`.
std::int64_t seen_keys(const ModelConfig& config, std::int64_t layer, std::int64_t positions);
/// LongRoPE's attention factor where none is given (Ding et al. 2024): sqrt(1 + ln(factor) / ln(original context)).
double usual_longrope_length(double rope_factor, std::int64_t original_block_size);
/// The factors of longrope in a context of block_size positions.
const std::vector<double>& longrope_factors(const ModelConfig& config);
/// YaRN's attention factor where none is given (Peng et al. 2023, equation 22): 0.1 ln(factor) + 1.
double usual_attention_factor(double rope_factor);

/// Everything that is wrong with the sizes; empty when nothing is.
std::vector<Problem> check(const ModelConfig& config);

/// The standard deviation of a normal start, of all kinds but pytorch.
double init_deviation(const ModelConfig& config);

/// The sizes of a rank that holds everything.
layout::ShardedDims whole_dims(const ModelConfig& config);

/// The feed-forward width that goes without saying: 4 C, or with a gate 8/3 C in multiples of 256, as Llama has it.
std::int64_t usual_ffn_width(std::int64_t width, bool gated);

}  // namespace lockstep::arch
