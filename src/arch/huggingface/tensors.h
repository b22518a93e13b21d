#pragma once

// Which tensors a published model has and which of our parameters each of them is: tables, read in both directions. Sizes are a
// ModelConfig's; names come from the family.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config.h"
#include "base/shape.h"

namespace lockstep::arch::huggingface {

/// Who published the names. Matrices of gpt2 are stored [in, out], as OpenAI did. The GPT-2 of "Build a Large Language Model
/// (From Scratch)" is rasbt. Its faster variant is rasbt_fused, with PyTorch's norms and with q, k, v in one matrix.
enum class Family : std::uint8_t {
  gpt2,
  llama,
  mistral,
  phi3,
  qwen2,
  qwen3,
  smollm3,
  gemma,
  gemma2,
  gemma3,
  olmo2,
  granite,
  rasbt,
  rasbt_fused
};
constexpr bool is_gemma(Family family) { return family == Family::gemma || family == Family::gemma2 || family == Family::gemma3; }
/// Whether the family's models have norms behind their branches as well.
constexpr bool has_post_norms(Family family) {
  return family == Family::gemma2 || family == Family::gemma3 || family == Family::olmo2;
}
/// Whether the family's config.json has the activation as "hidden_activation". Others have "hidden_act", the first Gemma both.
constexpr bool has_hidden_activation(Family family) { return family == Family::gemma2 || family == Family::gemma3; }
/// The families that a config.json can name.
std::span<const Family> all_families();
/// The family's name in "model_type".
std::string_view name_of(Family family);
std::optional<Family> family_named(std::string_view name);

/// A published tensor: some rows of one of our parameters (a vector has rows of one element).
struct Part {
  std::string name;
  Shape shape;                 ///< as published
  std::int64_t first_row = 0;  ///< row of the parameter
  std::int64_t rows = 0;
  bool transposed = false;  ///< published as [in, out]
};

struct Parameter {
  std::string name;  ///< ours
  Shape shape;       ///< ours
  std::vector<Part> parts;
  bool positions = false;  ///< the learned positions: a shorter context reads the first rows
};

struct TensorTable {
  std::vector<Parameter> parameters;  ///< in the order of unit_table()
  std::vector<Part> zeros;            ///< biases that the family has and the model lacks
};

/// The tensors of a model without its adapters.
TensorTable tensor_table(const ModelConfig& config, Family family);

/// What the names of the family's tensors start with; they lack it where a model was saved without its head. It may be empty.
std::string_view optional_prefix(Family family);
/// The names of the token table and of the head's matrix: the same tensor in a tied model.
std::string_view token_table_name(Family family);
std::string_view head_name(Family family);
/// Causal masks and rotary frequencies that older programs saved beside the weights.
bool is_buffer(std::string_view name);

}  // namespace lockstep::arch::huggingface
