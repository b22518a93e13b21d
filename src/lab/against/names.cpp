#include "lab/against/names.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace lockstep::lab::against {
namespace {

struct Row {
  std::string_view module;  ///< '#' is the block's number
  Place place;
  int part = -1;                                       ///< of q, k, v, or of gate, up
  bool (*counts)(const arch::ModelConfig&) = nullptr;  ///< of which models it says so; null: of all
};

bool has_post_norm(const arch::ModelConfig& config) { return config.post_norm; }
bool has_no_post_norm(const arch::ModelConfig& config) { return !config.post_norm; }
// Gemma 3 scales rows of tokens in this module, Gemma 2 and Granite behind it.
bool keeps_embeddings(const arch::ModelConfig& config) { return config.embedding_scale == 1; }

// GPT-2's modules in transformers and nanoGPT, then Llama's and those that are like them.
constexpr std::array<Row, 33> modules{{{"transformer.drop", Place::embedding},
                                       {"transformer.h.#.ln_1", Place::norm1},
                                       {"transformer.h.#.attn.c_attn", Place::qkv},
                                       {"transformer.h.#.attn.c_proj", Place::attention_out},
                                       {"transformer.h.#.attn.resid_dropout", Place::attention_out},
                                       {"transformer.h.#.attn", Place::attention_out},
                                       {"transformer.h.#.ln_2", Place::norm2},
                                       {"transformer.h.#.mlp.c_fc", Place::up},
                                       {"transformer.h.#.mlp.act", Place::activated},
                                       {"transformer.h.#.mlp.c_proj", Place::down},
                                       {"transformer.h.#.mlp.dropout", Place::down},
                                       {"transformer.h.#.mlp", Place::down},
                                       {"transformer.h.#", Place::block},
                                       {"transformer.ln_f", Place::final_norm},
                                       {"model.embed_tokens", Place::embedding, -1, keeps_embeddings},
                                       {"model.layers.#.input_layernorm", Place::norm1},
                                       {"model.layers.#.self_attn.q_proj", Place::qkv, 0},
                                       {"model.layers.#.self_attn.k_proj", Place::qkv, 1},
                                       {"model.layers.#.self_attn.v_proj", Place::qkv, 2},
                                       {"model.layers.#.self_attn.o_proj", Place::attention_out},
                                       {"model.layers.#.self_attn", Place::attention_out},
                                       {"model.layers.#.post_attention_layernorm", Place::norm2, -1, has_no_post_norm},
                                       {"model.layers.#.post_attention_layernorm", Place::post1, -1, has_post_norm},
                                       {"model.layers.#.pre_feedforward_layernorm", Place::norm2},
                                       {"model.layers.#.post_feedforward_layernorm", Place::post2},
                                       {"model.layers.#.mlp.gate_proj", Place::up, 0},
                                       {"model.layers.#.mlp.up_proj", Place::up, 1},
                                       {"model.layers.#.mlp.down_proj", Place::down},
                                       {"model.layers.#.mlp", Place::down},
                                       {"model.layers.#", Place::block},
                                       {"model.norm", Place::final_norm},
                                       {"lm_head", Place::head},
                                       {"logits", Place::logits}}};

/// The block's number of a name that is the pattern; -1 for another name.
std::int64_t block_of(std::string_view pattern, std::string_view name) {
  const std::size_t mark = pattern.find('#');
  if (mark == std::string_view::npos) return pattern == name ? 0 : -1;
  const std::string_view after = pattern.substr(mark + 1);
  if (!name.starts_with(pattern.substr(0, mark)) || !name.ends_with(after) || name.size() < mark + after.size() + 1) return -1;
  const std::string_view digits = name.substr(mark, name.size() - mark - after.size());
  std::int64_t number = -1;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return failed == std::errc() && end == digits.data() + digits.size() ? number : -1;
}

/// Whether tensor parallelism leaves it whole.
bool is_replicated(const arch::ModelConfig& config, arch::Role role) {
  using arch::Role;
  if (role == Role::query_gain || role == Role::key_gain) return !config.qk_norm_whole;
  constexpr std::array cut{Role::token_table, Role::qkv_weight, Role::qkv_bias,    Role::attention_out_weight,
                           Role::up_weight,   Role::up_bias,    Role::down_weight, Role::head_weight};
  return std::ranges::find(cut, role) == cut.end();
}

}  // namespace

std::size_t ParameterMeaning::place(std::size_t i, std::size_t j) const {
  const auto rows = static_cast<std::size_t>(part.rows), columns = static_cast<std::size_t>(part.shape.elements()) / rows;
  return part.transposed ? j * rows + i : i * columns + j;
}

Values ParameterMeaning::published(const Values& parameter) const {
  Values values(static_cast<std::size_t>(part.shape.elements()));
  const auto rows = static_cast<std::size_t>(part.rows), first = static_cast<std::size_t>(part.first_row);
  const std::size_t columns = values.size() / rows;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) values[place(i, j)] = parameter[(first + i) * columns + j];
  }
  return values;
}

void ParameterMeaning::put(const Values& published, Values& parameter) const {
  const auto rows = static_cast<std::size_t>(part.rows), first = static_cast<std::size_t>(part.first_row);
  const std::size_t columns = published.size() / rows;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) parameter[(first + i) * columns + j] = published[place(i, j)];
  }
}

Names::Names(const arch::ModelConfig& config, const std::vector<arch::huggingface::Parameter>& parameters, const Batch& batch)
    : config_(config), rows_(batch.rows), columns_(batch.columns) {
  const std::vector<layout::ParameterInfo> infos = parameters_of(config);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const arch::huggingface::Part& part : parameters[i].parts) {
      ParameterMeaning meaning;
      meaning.index = i;
      meaning.part = part;
      meaning.decays = infos[i].decay;
      meaning.replicated = is_replicated(config, static_cast<arch::Role>(infos[i].role));
      meaning.order = static_cast<std::int64_t>(parameters_.size());
      for (int d = 0; d < part.shape.rank(); ++d) meaning.shape.push_back(part.shape[d]);
      parameters_.emplace(part.name, std::move(meaning));
    }
  }
}

const ParameterMeaning* Names::parameter(std::string_view name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : &found->second;
}

/// The columns that a module of a place, or of one of its parts, puts out.
ActivationMeaning Names::columns_of(Place place, int part) const {
  const std::int64_t kv = config_.kv_heads * config_.head_size, q = config_.heads * config_.head_size;
  const std::int64_t ffn = config_.ffn_width, up = ffn * (config_.gated ? 2 : 1);
  const std::int64_t all = place == Place::qkv         ? q + 2 * kv
                           : place == Place::up        ? up
                           : place == Place::activated ? ffn
                           : place >= Place::head      ? config_.vocabulary
                                                       : config_.width;
  if (part < 0) return {{}, 0, all, all, {}};
  if (place == Place::up) return {{}, part * ffn, ffn, all, {}};
  return {{}, part == 0 ? 0 : q + (part - 1) * kv, part == 0 ? q : kv, all, {}};
}

std::optional<ActivationMeaning> Names::activation(std::string_view module) const {
  for (const Row& row : modules) {
    const std::int64_t block = block_of(row.module, module);
    if (block < 0 || block >= config_.layers || (row.counts != nullptr && !row.counts(config_))) continue;
    ActivationMeaning meaning = columns_of(row.place, row.part);
    meaning.spot = {row.place, block};
    meaning.shape = {rows_, columns_, meaning.columns};
    return meaning;
  }
  return std::nullopt;
}

Values published(const ActivationMeaning& meaning, const Walked& walked) {
  const Values& all = walked.activations.at(meaning.spot);
  if (meaning.columns == meaning.of) return all;
  Values values;
  for (auto row = all.begin(); row != all.end(); row += meaning.of)
    values.insert(values.end(), row + meaning.first, row + meaning.first + meaning.columns);
  return values;
}

}  // namespace lockstep::lab::against
