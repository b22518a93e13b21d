#include "arch/shard_rules.h"

#include <algorithm>

#include "arch/adapter.h"

namespace lockstep::arch {
namespace {

using layout::Range;
using layout::ShardGroup;

ShardGroup query_heads(const ModelConfig& config) { return {.pieces = config.heads, .size = config.head_size}; }
ShardGroup kv_heads(const ModelConfig& config) {
  return {.pieces = config.kv_heads, .size = config.head_size, .users = config.heads / config.kv_heads};
}
ShardGroup features(const ModelConfig& config) { return {.pieces = config.ffn_width}; }
ShardGroup tokens(const ModelConfig& config) { return {.pieces = config.vocabulary}; }

/// The adapter that has B in this role.
AdapterSite adapter_of(const ModelConfig& config, Role b) {
  const std::vector<AdapterSite> sites = adapter_sites(config, whole_dims(config));
  const auto found = std::ranges::find(sites, b, &AdapterSite::b);
  ensure(found != sites.end(), "the model has the adapter");
  return *found;
}

}  // namespace

layout::ShardRule shard_rule(const ModelConfig& config, Role role) {
  switch (role) {
    case Role::token_table:
    case Role::head_weight:
      return {0, {tokens(config)}};
    case Role::qkv_weight:
    case Role::qkv_bias:
      return {0, {query_heads(config), kv_heads(config), kv_heads(config)}};
    case Role::query_b:
      if (adapter_of(config, role).name == "q") return {0, {query_heads(config)}};
      return shard_rule(config, Role::qkv_weight);
    case Role::key_b:
    case Role::value_b:
      return {0, {kv_heads(config)}};
    case Role::gate_b:
      return {0, {features(config)}};
    case Role::up_b:
      if (adapter_of(config, role).name == "up") return {0, {features(config)}};
      return shard_rule(config, Role::up_weight);
    case Role::out_a:
      return shard_rule(config, Role::attention_out_weight);
    case Role::down_a:
      return shard_rule(config, Role::down_weight);
    case Role::query_gain:
      if (config.qk_norm_whole) return {0, {query_heads(config)}};
      return {.axis = -1, .groups = {}, .partial = true};
    case Role::key_gain:
      if (config.qk_norm_whole) return {0, {kv_heads(config)}};
      return {.axis = -1, .groups = {}, .partial = true};
    // Each rank makes its part of their gradients: of its features that come out, or of those that go in.
    case Role::query_a:
    case Role::key_a:
    case Role::value_a:
    case Role::gate_a:
    case Role::up_a:
    case Role::out_b:
    case Role::down_b:
      return {.axis = -1, .groups = {}, .partial = true};
    case Role::attention_out_weight:
      return {1, {query_heads(config)}};
    case Role::up_weight:
    case Role::up_bias:
      if (config.gated) return {0, {features(config), features(config)}};
      return {0, {features(config)}};
    case Role::down_weight:
      return {1, {features(config)}};
    case Role::position_table:
    case Role::norm1_gain:
    case Role::norm1_bias:
    case Role::attention_out_bias:
    case Role::post1_gain:
    case Role::post1_bias:
    case Role::norm2_gain:
    case Role::norm2_bias:
    case Role::down_bias:
    case Role::post2_gain:
    case Role::post2_bias:
    case Role::final_gain:
    case Role::final_bias:
    case Role::count:
      break;
  }
  return {};
}

bool is_hidden_matrix(const layout::ParameterInfo& info) {
  const auto role = static_cast<Role>(info.role);
  return role == Role::qkv_weight || role == Role::attention_out_weight || role == Role::up_weight || role == Role::down_weight;
}

layout::ShardedDims sharded_dims(const ModelConfig& config, layout::TensorRank tensor) {
  layout::ShardedDims dims = whole_dims(config);
  const Range heads = held_pieces(query_heads(config), tensor), kv = held_pieces(kv_heads(config), tensor);
  const Range rows = held_pieces(tokens(config), tensor);
  dims.heads = heads.count;
  dims.first_head = heads.first;
  dims.kv_heads = kv.count;
  dims.first_kv_head = kv.first;
  dims.ffn_width = held_pieces(features(config), tensor).count;
  dims.vocabulary = rows.count;
  dims.first_token = rows.first;
  dims.vocabulary_part = tensor.rank;
  dims.vocabulary_parts = tensor.ranks;
  dims.greatest_vocabulary = (config.vocabulary + tensor.ranks - 1) / tensor.ranks;
  return dims;
}

layout::PlanLimits plan_limits(const ModelConfig& config, std::int64_t positions) {
  const layout::ShardedDims dims = whole_dims(config);
  return {.layers = config.layers,
          .heads = config.heads,
          .ffn_width = config.ffn_width,
          .vocabulary = config.vocabulary,
          .positions = positions,
          .in_features = std::min({config.width, dims.attention_width(), dims.ffn_width}),
          .out_features = std::min({config.width, dims.qkv_width(), dims.up_width()}),
          .kv_heads = config.kv_heads,
          .adapters = config.adapter.used()};
}

}  // namespace lockstep::arch
