#include "arch/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arch/adapter.h"
#include "arch/shard_rules.h"

namespace lockstep::arch {
namespace {

/// Adds parameters to a unit by the rules of one configuration.
class Table {
 public:
  Table(const ModelConfig& config, DecayRule decay) : config_(config), decay_(decay) {}

  void matrix(UnitSpec& unit, std::string name, Role role, std::int64_t out, std::int64_t in, bool residual = false) const {
    const float scale = residual ? 1.0F / std::sqrt(2.0F * static_cast<float>(config_.layers)) : 1.0F;
    const Init init = normal() ? Init{Init::Kind::normal, deviation() * scale} : pytorch_linear(in);
    add(unit, std::move(name), role, Shape{out, in}, init);
  }
  void table(UnitSpec& unit, std::string name, Role role, std::int64_t rows) const {
    add(unit, std::move(name), role, Shape{rows, config_.width}, Init{Init::Kind::normal, normal() ? deviation() : 1.0F});
  }
  void bias(UnitSpec& unit, bool present, std::string name, Role role, std::int64_t size, std::int64_t in) const {
    if (!present) return;
    add(unit, std::move(name), role, Shape{size}, normal() ? Init{} : pytorch_linear(in));
  }
  void norm(UnitSpec& unit, const std::string& name, Role gain, Role bias_role) const {
    add(unit, name + ".weight", gain, Shape{config_.width}, gain_start());
    if (config_.bias && config_.norm == NormKind::layernorm) add(unit, name + ".bias", bias_role, Shape{config_.width}, Init{});
  }
  void post_norm(UnitSpec& unit, const std::string& name, Role gain, Role bias_role) const {
    if (config_.post_norm) norm(unit, name, gain, bias_role);
  }
  void pre_norm(UnitSpec& unit, const std::string& name, Role gain, Role bias_role) const {
    if (config_.pre_norm) norm(unit, name, gain, bias_role);
  }
  void head_gain(UnitSpec& unit, std::string name, Role role, std::int64_t heads) const {
    const std::int64_t together = config_.qk_norm_whole ? heads : 1;
    if (config_.qk_norm) add(unit, std::move(name), role, Shape{together * config_.head_size}, gain_start());
  }

 private:
  Init gain_start() const { return {Init::Kind::constant, config_.unit_offset ? 0.0F : 1.0F}; }
  bool normal() const { return config_.init != InitKind::pytorch; }
  float deviation() const { return static_cast<float>(init_deviation(config_)); }
  static Init pytorch_linear(std::int64_t in) { return {Init::Kind::uniform, 1.0F / std::sqrt(static_cast<float>(in))}; }
  void add(UnitSpec& unit, std::string name, Role role, Shape shape, Init init) const {
    const bool decays = decay_ == DecayRule::all || shape.rank() >= 2;
    unit.parameters.push_back({{std::move(name), shape, decays, static_cast<int>(role), shard_rule(config_, role)}, init});
  }
  const ModelConfig& config_;
  DecayRule decay_;
};

UnitSpec block_unit(const ModelConfig& c, const Table& table, std::int64_t index) {
  const std::string prefix = fmt::format("transformer.h.{}.", index);
  UnitSpec unit{fmt::format("h.{}", index), {}};
  const layout::ShardedDims dims = whole_dims(c);
  const std::int64_t attention_width = dims.attention_width(), qkv_width = dims.qkv_width(), up_width = dims.up_width();
  table.pre_norm(unit, prefix + "ln_1", Role::norm1_gain, Role::norm1_bias);
  table.matrix(unit, prefix + "attn.c_attn.weight", Role::qkv_weight, qkv_width, c.width);
  table.bias(unit, c.qkv_bias, prefix + "attn.c_attn.bias", Role::qkv_bias, qkv_width, c.width);
  table.head_gain(unit, prefix + "attn.q_norm.weight", Role::query_gain, c.heads);
  table.head_gain(unit, prefix + "attn.k_norm.weight", Role::key_gain, c.kv_heads);
  table.matrix(unit, prefix + "attn.c_proj.weight", Role::attention_out_weight, c.width, attention_width, true);
  table.bias(unit, c.bias, prefix + "attn.c_proj.bias", Role::attention_out_bias, c.width, attention_width);
  table.post_norm(unit, prefix + "post_1", Role::post1_gain, Role::post1_bias);
  table.pre_norm(unit, prefix + "ln_2", Role::norm2_gain, Role::norm2_bias);
  table.matrix(unit, prefix + "mlp.c_fc.weight", Role::up_weight, up_width, c.width);
  table.bias(unit, c.bias, prefix + "mlp.c_fc.bias", Role::up_bias, up_width, c.width);
  table.matrix(unit, prefix + "mlp.c_proj.weight", Role::down_weight, c.width, c.ffn_width, true);
  table.bias(unit, c.bias, prefix + "mlp.c_proj.bias", Role::down_bias, c.width, c.ffn_width);
  table.post_norm(unit, prefix + "post_2", Role::post2_gain, Role::post2_bias);
  return unit;
}

/// What is trained is units. The final norm is none of what is trained beside adapters.
bool norm_is_apart(const ModelConfig& config) { return config.adapter.used() && config.adapter.trains_head() && !config.tied; }

}  // namespace

std::vector<UnitSpec> unit_table(const ModelConfig& config, DecayRule decay) {
  const Table table(config, decay);
  std::vector<UnitSpec> units;
  UnitSpec embedding{"embedding", {}};
  UnitSpec tied{"tied", {}};
  table.table(config.tied ? tied : embedding, "transformer.wte.weight", Role::token_table, config.vocabulary);
  if (config.position == PositionKind::learned)
    table.table(embedding, "transformer.wpe.weight", Role::position_table, config.block_size);
  units.push_back(std::move(embedding));
  if (config.tied) units.push_back(std::move(tied));
  for (std::int64_t i = 0; i < config.layers; ++i) units.push_back(block_unit(config, table, i));
  UnitSpec head{"head", {}}, norm{"norm", {}};
  const bool apart = norm_is_apart(config);
  table.norm(apart ? norm : head, "transformer.ln_f", Role::final_gain, Role::final_bias);
  if (apart) units.push_back(std::move(norm));
  if (!config.tied) table.matrix(head, "lm_head.weight", Role::head_weight, config.vocabulary, config.width);
  units.push_back(std::move(head));
  if (!config.adapter.used()) return units;
  const UnitMap map = unit_map(config);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const UnitIndex unit{static_cast<int>(u)};
    const auto in = [&](const std::vector<UnitIndex>& learns) { return std::ranges::find(learns, unit) != learns.end(); };
    units[u].trained = in(map.embedding_learns) || in(map.head_learns);
  }
  for (std::int64_t i = 0; i < config.layers; ++i) units.push_back(adapter_unit(config, decay, i));
  return units;
}

std::vector<layout::Unit> units_of(const std::vector<UnitSpec>& table, layout::TensorRank tensor) {
  std::vector<layout::Unit> units;
  for (const UnitSpec& spec : table) {
    std::vector<layout::ParameterInfo> infos;
    infos.reserve(spec.parameters.size());
    for (const ParameterSpec& parameter : spec.parameters) infos.push_back(parameter.info);
    units.push_back(layout::make_unit(spec.name, std::move(infos), tensor));
    units.back().trained = spec.trained;
  }
  return units;
}

UnitMap unit_map(const ModelConfig& config) {
  UnitMap map;
  int next = 0;
  map.embedding = UnitIndex{next++};
  if (config.tied) map.tied = UnitIndex{next++};
  for (std::int64_t i = 0; i < config.layers; ++i) map.blocks.push_back(UnitIndex{next++});
  if (norm_is_apart(config)) map.norm = UnitIndex{next++};
  map.head = UnitIndex{next++};
  for (std::int64_t i = 0; config.adapter.used() && i < config.layers; ++i) map.adapters.push_back(UnitIndex{next++});
  map.count = next;
  map.embedding_reads = {map.embedding};
  if (map.norm.value >= 0) map.head_reads.push_back(map.norm);
  map.head_reads.push_back(map.head);
  if (config.tied) {
    map.embedding_reads.push_back(map.tied);
    map.head_reads.push_back(map.tied);
    map.projection = Role::token_table;
  }
  const UnitIndex projecting = map.head_reads.back();
  if (map.trains_all()) {
    map.embedding_learns = {map.embedding};
    map.head_learns = map.head_reads;
  } else {
    if (!config.tied && config.adapter.trains_embeddings()) map.embedding_learns = {map.embedding};
    if (config.adapter.trains_head()) map.head_learns = {projecting};
  }
  return map;
}

TokenTable token_table(const std::vector<layout::Unit>& units, const UnitMap& map) {
  const bool tied = map.tied.value >= 0;
  const UnitIndex unit = tied ? map.tied : map.embedding;
  for (const layout::PlacedParameter& parameter : units[static_cast<std::size_t>(unit.value)].parameters) {
    if (parameter.info.role != static_cast<int>(Role::token_table)) continue;
    const Shape& shape = parameter.shape();
    const std::int64_t first = shape.rows() == 0 ? 0 : parameter.shard.rectangles({0, shape.last()}).front().global;
    return {.unit = unit, .offset = parameter.offset, .shape = shape, .tied = tied, .first_token = first / shape.last()};
  }
  throw BrokenRule("every model has a token table");
}

std::vector<UnitIndex> backward_order(const UnitMap& map) {
  std::vector<UnitIndex> order = map.head_learns;
  const std::vector<UnitIndex>& inner = map.trains_all() ? map.blocks : map.adapters;
  order.insert(order.end(), inner.rbegin(), inner.rend());
  order.insert(order.end(), map.embedding_learns.begin(), map.embedding_learns.end());
  return order;
}

namespace {

/// Whether passes through `chunks` go back through what the unit has, its rows of tokens aside.
bool is_used_going_back(const UnitMap& map, const std::vector<layout::Chunk>& chunks, UnitIndex unit) {
  const auto place = [&](const std::vector<UnitIndex>& units) { return std::ranges::find(units, unit) - units.begin(); };
  return std::ranges::any_of(chunks, [&](const layout::Chunk& chunk) {
    if (unit == map.embedding) return chunk.embedding;
    if (unit == map.head || unit == map.tied || unit == map.norm) return chunk.head;
    const std::int64_t adapter = place(map.adapters), block = adapter < std::ssize(map.adapters) ? adapter : place(map.blocks);
    return block >= chunk.blocks.first && block < chunk.blocks.end();
  });
}

}  // namespace

std::vector<UnitIndex> backward_order(const UnitMap& map, const std::vector<layout::Chunk>& chunks) {
  std::vector<UnitIndex> order = backward_order(map);
  std::erase_if(order, [&](UnitIndex unit) { return !is_used_going_back(map, chunks, unit); });
  return order;
}

std::vector<layout::Unit> units_of(const std::vector<UnitSpec>& table, const UnitMap& map,
                                   const std::vector<layout::Chunk>& chunks, layout::TensorRank tensor) {
  const bool embeds = std::ranges::any_of(chunks, &layout::Chunk::embedding);
  std::vector<UnitSpec> mine = table;
  for (std::size_t u = 0; u < mine.size(); ++u) {
    const UnitIndex unit{static_cast<int>(u)};
    const bool embedded = embeds && std::ranges::find(map.embedding_reads, unit) != map.embedding_reads.end();
    if (!embedded && !is_used_going_back(map, chunks, unit)) mine[u].parameters.clear();
  }
  std::vector<layout::Unit> units = units_of(mine, tensor);
  if (map.tied.value >= 0) units[static_cast<std::size_t>(map.tied.value)].owned = embeds;
  return units;
}

ParameterCounts count_parameters(const ModelConfig& config, DecayRule decay) {
  ParameterCounts counts;
  for (const UnitSpec& unit : unit_table(config, decay)) {
    for (const ParameterSpec& parameter : unit.parameters) {
      const std::int64_t size = parameter.info.shape.elements();
      counts.total += size;
      if (unit.trained) counts.trained += size;
      const bool looked_up = parameter.info.role == static_cast<int>(Role::token_table) && !config.tied;
      if (parameter.info.role != static_cast<int>(Role::position_table)) counts.without_positions += size;
      if (looked_up) counts.looked_up += size;
      if (looked_up && unit.trained) counts.trained_looked_up += size;
      if (!unit.trained) continue;
      (parameter.info.decay ? counts.decayed : counts.other) += size;
      ++(parameter.info.decay ? counts.decayed_tensors : counts.other_tensors);
    }
  }
  return counts;
}

}  // namespace lockstep::arch
