#include "arch/huggingface/tensors.h"

#include <algorithm>
#include <array>
#include <span>

#include "arch/parameters.h"

namespace lockstep::arch::huggingface {
namespace {

constexpr std::array named_families{Family::gpt2,  Family::llama,   Family::mistral, Family::phi3,   Family::qwen2,
                                    Family::qwen3, Family::smollm3, Family::gemma,   Family::gemma2, Family::gemma3,
                                    Family::olmo2, Family::granite, Family::rasbt};
constexpr std::array<std::string_view, 14> family_names{"gpt2",  "llama",   "mistral", "phi3",       "qwen2",
                                                        "qwen3", "smollm3", "gemma",   "gemma2",     "gemma3_text",
                                                        "olmo2", "granite", "rasbt",   "rasbt_fused"};

/// A '#' in a name is the block's number. Our parameter of q, k and v, and that of gate and up, have a name for each part.
struct Row {
  Role role;
  std::array<std::string_view, 3> names;
  bool transposed = false;
};

constexpr std::array<Row, 17> gpt2_rows{{{Role::token_table, {"transformer.wte.weight"}},
                                         {Role::position_table, {"transformer.wpe.weight"}},
                                         {Role::norm1_gain, {"transformer.h.#.ln_1.weight"}},
                                         {Role::norm1_bias, {"transformer.h.#.ln_1.bias"}},
                                         {Role::qkv_weight, {"transformer.h.#.attn.c_attn.weight"}, true},
                                         {Role::qkv_bias, {"transformer.h.#.attn.c_attn.bias"}},
                                         {Role::attention_out_weight, {"transformer.h.#.attn.c_proj.weight"}, true},
                                         {Role::attention_out_bias, {"transformer.h.#.attn.c_proj.bias"}},
                                         {Role::norm2_gain, {"transformer.h.#.ln_2.weight"}},
                                         {Role::norm2_bias, {"transformer.h.#.ln_2.bias"}},
                                         {Role::up_weight, {"transformer.h.#.mlp.c_fc.weight"}, true},
                                         {Role::up_bias, {"transformer.h.#.mlp.c_fc.bias"}},
                                         {Role::down_weight, {"transformer.h.#.mlp.c_proj.weight"}, true},
                                         {Role::down_bias, {"transformer.h.#.mlp.c_proj.bias"}},
                                         {Role::final_gain, {"transformer.ln_f.weight"}},
                                         {Role::final_bias, {"transformer.ln_f.bias"}},
                                         {Role::head_weight, {"lm_head.weight"}}}};

// Llama's and those of its kin: they differ in which of the biases and norms there are.
constexpr std::array<Row, 15> llama_rows{
    {{Role::token_table, {"model.embed_tokens.weight"}},
     {Role::norm1_gain, {"model.layers.#.input_layernorm.weight"}},
     {Role::qkv_weight,
      {"model.layers.#.self_attn.q_proj.weight", "model.layers.#.self_attn.k_proj.weight",
       "model.layers.#.self_attn.v_proj.weight"}},
     {Role::qkv_bias,
      {"model.layers.#.self_attn.q_proj.bias", "model.layers.#.self_attn.k_proj.bias", "model.layers.#.self_attn.v_proj.bias"}},
     {Role::query_gain, {"model.layers.#.self_attn.q_norm.weight"}},
     {Role::key_gain, {"model.layers.#.self_attn.k_norm.weight"}},
     {Role::attention_out_weight, {"model.layers.#.self_attn.o_proj.weight"}},
     {Role::attention_out_bias, {"model.layers.#.self_attn.o_proj.bias"}},
     {Role::norm2_gain, {"model.layers.#.post_attention_layernorm.weight"}},
     {Role::up_weight, {"model.layers.#.mlp.gate_proj.weight", "model.layers.#.mlp.up_proj.weight"}},
     {Role::up_bias, {"model.layers.#.mlp.gate_proj.bias", "model.layers.#.mlp.up_proj.bias"}},
     {Role::down_weight, {"model.layers.#.mlp.down_proj.weight"}},
     {Role::down_bias, {"model.layers.#.mlp.down_proj.bias"}},
     {Role::final_gain, {"model.norm.weight"}},
     {Role::head_weight, {"lm_head.weight"}}}};

constexpr std::array<Row, 9> phi3_rows{{{Role::token_table, {"model.embed_tokens.weight"}},
                                        {Role::norm1_gain, {"model.layers.#.input_layernorm.weight"}},
                                        {Role::qkv_weight, {"model.layers.#.self_attn.qkv_proj.weight"}},
                                        {Role::attention_out_weight, {"model.layers.#.self_attn.o_proj.weight"}},
                                        {Role::norm2_gain, {"model.layers.#.post_attention_layernorm.weight"}},
                                        {Role::up_weight, {"model.layers.#.mlp.gate_up_proj.weight"}},
                                        {Role::down_weight, {"model.layers.#.mlp.down_proj.weight"}},
                                        {Role::final_gain, {"model.norm.weight"}},
                                        {Role::head_weight, {"lm_head.weight"}}}};

// Gemma 2's, Gemma 3's and OLMo 2's: Llama's, but for the norms. Each has those that its config says.
constexpr std::array<Row, 13> post_norm_rows{
    {{Role::token_table, {"model.embed_tokens.weight"}},
     {Role::norm1_gain, {"model.layers.#.input_layernorm.weight"}},
     {Role::qkv_weight,
      {"model.layers.#.self_attn.q_proj.weight", "model.layers.#.self_attn.k_proj.weight",
       "model.layers.#.self_attn.v_proj.weight"}},
     {Role::query_gain, {"model.layers.#.self_attn.q_norm.weight"}},
     {Role::key_gain, {"model.layers.#.self_attn.k_norm.weight"}},
     {Role::attention_out_weight, {"model.layers.#.self_attn.o_proj.weight"}},
     {Role::post1_gain, {"model.layers.#.post_attention_layernorm.weight"}},
     {Role::norm2_gain, {"model.layers.#.pre_feedforward_layernorm.weight"}},
     {Role::up_weight, {"model.layers.#.mlp.gate_proj.weight", "model.layers.#.mlp.up_proj.weight"}},
     {Role::down_weight, {"model.layers.#.mlp.down_proj.weight"}},
     {Role::post2_gain, {"model.layers.#.post_feedforward_layernorm.weight"}},
     {Role::final_gain, {"model.norm.weight"}},
     {Role::head_weight, {"lm_head.weight"}}}};

constexpr std::array<Row, 17> rasbt_rows{
    {{Role::token_table, {"tok_emb.weight"}},
     {Role::position_table, {"pos_emb.weight"}},
     {Role::norm1_gain, {"trf_blocks.#.norm1.scale"}},
     {Role::norm1_bias, {"trf_blocks.#.norm1.shift"}},
     {Role::qkv_weight, {"trf_blocks.#.att.W_query.weight", "trf_blocks.#.att.W_key.weight", "trf_blocks.#.att.W_value.weight"}},
     {Role::qkv_bias, {"trf_blocks.#.att.W_query.bias", "trf_blocks.#.att.W_key.bias", "trf_blocks.#.att.W_value.bias"}},
     {Role::attention_out_weight, {"trf_blocks.#.att.out_proj.weight"}},
     {Role::attention_out_bias, {"trf_blocks.#.att.out_proj.bias"}},
     {Role::norm2_gain, {"trf_blocks.#.norm2.scale"}},
     {Role::norm2_bias, {"trf_blocks.#.norm2.shift"}},
     {Role::up_weight, {"trf_blocks.#.ff.layers.0.weight"}},
     {Role::up_bias, {"trf_blocks.#.ff.layers.0.bias"}},
     {Role::down_weight, {"trf_blocks.#.ff.layers.2.weight"}},
     {Role::down_bias, {"trf_blocks.#.ff.layers.2.bias"}},
     {Role::final_gain, {"final_norm.scale"}},
     {Role::final_bias, {"final_norm.shift"}},
     {Role::head_weight, {"out_head.weight"}}}};

constexpr std::array<Row, 17> rasbt_fused_rows{{{Role::token_table, {"tok_emb.weight"}},
                                                {Role::position_table, {"pos_emb.weight"}},
                                                {Role::norm1_gain, {"trf_blocks.#.norm1.weight"}},
                                                {Role::norm1_bias, {"trf_blocks.#.norm1.bias"}},
                                                {Role::qkv_weight, {"trf_blocks.#.att.qkv.weight"}},
                                                {Role::qkv_bias, {"trf_blocks.#.att.qkv.bias"}},
                                                {Role::attention_out_weight, {"trf_blocks.#.att.proj.weight"}},
                                                {Role::attention_out_bias, {"trf_blocks.#.att.proj.bias"}},
                                                {Role::norm2_gain, {"trf_blocks.#.norm2.weight"}},
                                                {Role::norm2_bias, {"trf_blocks.#.norm2.bias"}},
                                                {Role::up_weight, {"trf_blocks.#.ff.layers.0.weight"}},
                                                {Role::up_bias, {"trf_blocks.#.ff.layers.0.bias"}},
                                                {Role::down_weight, {"trf_blocks.#.ff.layers.2.weight"}},
                                                {Role::down_bias, {"trf_blocks.#.ff.layers.2.bias"}},
                                                {Role::final_gain, {"final_norm.weight"}},
                                                {Role::final_bias, {"final_norm.bias"}},
                                                {Role::head_weight, {"out_head.weight"}}}};

std::span<const Row> rows_of(Family family) {
  switch (family) {
    case Family::gpt2:
      return gpt2_rows;
    case Family::llama:
    case Family::mistral:
    case Family::qwen2:
    case Family::qwen3:
    case Family::smollm3:
    case Family::gemma:
    case Family::granite:
      return llama_rows;
    case Family::gemma2:
    case Family::gemma3:
    case Family::olmo2:
      return post_norm_rows;
    case Family::phi3:
      return phi3_rows;
    case Family::rasbt:
      return rasbt_rows;
    case Family::rasbt_fused:
      return rasbt_fused_rows;
  }
  throw BrokenRule("every family has a table");
}

const Row& row_of(Family family, Role role) {
  const std::span<const Row> rows = rows_of(family);
  const auto found = std::find_if(rows.begin(), rows.end(), [role](const Row& row) { return row.role == role; });
  ensure(found != rows.end(), "the family's table has every parameter that its configuration allows");
  return *found;
}

/// How the rows of a parameter are shared out to the parts that it is published as.
std::vector<std::int64_t> rows_of_parts(const ModelConfig& config, const Row& row, std::int64_t all) {
  if (row.names[1].empty()) return {all};
  if (row.names[2].empty()) return {config.ffn_width, config.ffn_width};
  const std::int64_t key = config.kv_heads * config.head_size;
  return {config.heads * config.head_size, key, key};
}

std::string with_block(std::string_view name, std::string_view block) {
  std::string text(name);
  if (const std::size_t place = text.find('#'); place != std::string::npos) text.replace(place, 1, block);
  return text;
}

Parameter make_parameter(const ModelConfig& config, Family family, const layout::ParameterInfo& info, std::string_view block) {
  const Row& row = row_of(family, static_cast<Role>(info.role));
  Parameter parameter{info.name, info.shape, {}, row.role == Role::position_table};
  const bool matrix = info.shape.rank() == 2;
  std::int64_t first = 0;
  const std::vector<std::int64_t> sizes = rows_of_parts(config, row, info.shape[0]);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t rows = sizes[i];
    const Shape shape = !matrix ? Shape{rows} : row.transposed ? Shape{info.shape[1], rows} : Shape{rows, info.shape[1]};
    parameter.parts.push_back({with_block(row.names[i], block), shape, first, rows, row.transposed});
    first += rows;
  }
  ensure(first == info.shape[0], "the parts are the whole parameter");
  return parameter;
}

std::vector<Parameter> parameters_of(ModelConfig config, Family family) {
  config.adapter = {};
  std::vector<Parameter> all;
  const std::vector<UnitSpec> units = unit_table(config);
  const UnitMap map = unit_map(config);
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const auto block = static_cast<std::int64_t>(unit) - map.blocks.front().value;  // of no consequence for the others
    for (const ParameterSpec& spec : units[unit].parameters)
      all.push_back(make_parameter(config, family, spec.info, std::to_string(block)));
  }
  return all;
}

}  // namespace

std::span<const Family> all_families() { return named_families; }

std::string_view name_of(Family family) { return family_names[static_cast<std::size_t>(family)]; }

std::optional<Family> family_named(std::string_view name) {
  for (const Family family : named_families) {
    if (name_of(family) == name) return family;
  }
  return std::nullopt;
}

TensorTable tensor_table(const ModelConfig& config, Family family) {
  TensorTable table{parameters_of(config, family), {}};
  if (family != Family::gpt2 && family != Family::llama && family != Family::smollm3 && family != Family::granite) return table;
  // GPT-2 has every bias; the attention of the others has all of its biases or none.
  ModelConfig full = config;
  full.bias = config.bias || family == Family::gpt2;
  full.qkv_bias = config.qkv_bias || full.bias;
  for (Parameter& parameter : parameters_of(full, family)) {
    const auto same = [&](const Parameter& one) { return one.name == parameter.name; };
    if (std::none_of(table.parameters.begin(), table.parameters.end(), same)) {
      for (Part& part : parameter.parts) table.zeros.push_back(std::move(part));
    }
  }
  return table;
}

std::string_view optional_prefix(Family family) {
  switch (family) {
    case Family::gpt2:
      return "transformer.";
    case Family::rasbt:
    case Family::rasbt_fused:
      return "";
    default:
      return "model.";
  }
}

std::string_view token_table_name(Family family) { return row_of(family, Role::token_table).names[0]; }

std::string_view head_name(Family family) { return row_of(family, Role::head_weight).names[0]; }

bool is_buffer(std::string_view name) {
  for (const std::string_view end : {".attn.bias", ".attn.masked_bias", ".att.mask", ".rotary_emb.inv_freq"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

}  // namespace lockstep::arch::huggingface
