#pragma once

// What llama.cpp calls the parts of published models: a table of architectures, read in both directions. The names and keys are
// those of gguf-py 0.19 (gguf/constants.py, gguf/tensor_mapping.py); what becomes of a tensor is what llama.cpp's
// convert_hf_to_gguf.py does. A GGUF file is read as a config.json and tensors with the names of Hugging Face, so that all that
// holds for them holds here.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config.h"
#include "base/json.h"

namespace lockstep::arch::gguf {

inline constexpr std::string_view architecture_key = "general.architecture";
/// The tokens that end a text: llama.cpp stops at any of them (llama_vocab::impl::load, special_eog_ids).
inline constexpr std::array<std::string_view, 3> end_keys = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                                             "tokenizer.ggml.eom_token_id"};
/// The divisor of each rotary frequency; a tensor beside the model's.
inline constexpr std::string_view rope_factors_name = "rope_freqs.weight";

struct TensorName {
  std::string name;
  bool paired = false;  ///< llama.cpp turns neighbours, so the rows of each head stand in pairs
  float added = 0;      ///< the file's elements are so much larger
};

struct Architecture {
  /// A '#' is the block's number; what follows is ".weight" or ".bias".
  struct Name {
    std::string_view huggingface, gguf;
    bool turned = false;  ///< its rows are turned by rotary positions
  };
  struct Key {
    std::string_view gguf;  ///< what follows "ARCHITECTURE."
    std::string_view config;
    bool required = false;
  };
  std::string_view model_type;  ///< "model_type" of config.json
  std::string_view name;        ///< value of general.architecture
  std::span<const Name> names;
  std::span<const Key> keys;
  bool paired = false;  ///< rows that are turned stand in pairs
  bool gemma = false;   ///< gains are stored as they multiply, 1 + what config.json's model has; much goes without saying

  /// "model.layers.3.self_attn.q_proj.weight" as "blk.3.attn_q.weight", and back; nothing for a name that is not known.
  std::optional<TensorName> gguf_name(std::string_view huggingface) const;
  std::optional<TensorName> huggingface_name(std::string_view gguf) const;
  /// By how much the file's elements of the row's tensor are larger than ours.
  float added_to(const Name& row) const;
};

/// The architecture by the name in config.json, or in a file's pairs. Throws UserError, naming `what`, for an unknown one.
const Architecture& architecture_of_config(const Json& config, std::string_view what);
const Architecture& architecture_of_pairs(const Json& pairs, std::string_view what);

/// The pairs that say what the model is; `json` is its config.json. Throws UserError for what llama.cpp does not compute.
Json pairs_of(const ModelConfig& config, const Json& json);

/// What a file's tensors say of its model.
struct TensorFacts {
  std::int64_t vocabulary = 0;      ///< rows of the token table
  bool head = false;                ///< the head has a matrix of its own
  bool biases = false;              ///< the attention's and the MLP's output have biases
  std::vector<float> rope_factors;  ///< empty: none
};
/// A config.json that says what the pairs do. Throws UserError, naming `what`, for keys that are missing, of another type, at
/// odds with each other or not known.
Json config_of(const Json& pairs, const TensorFacts& tensors, std::string_view what);

/// The content of rope_factors_name; empty where angles are not scaled.
std::vector<float> rope_factors(const ModelConfig& config);

}  // namespace lockstep::arch::gguf
