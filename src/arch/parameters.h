#pragma once

// The table of a model's parameters: name, shape, role, start value, decay, how it is cut (arch/shard_rules), and the unit each
// belongs to. A new family is a new table.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/config.h"
#include "layout/pipeline/pipeline_schedule.h"
#include "layout/unit.h"

namespace lockstep::arch {

/// What the model uses a parameter for.
enum class Role : std::uint8_t {
  token_table,
  position_table,
  norm1_gain,
  norm1_bias,
  qkv_weight,  ///< [(H + 2K) D, C]: q, k, v
  qkv_bias,
  query_gain,  ///< [D], for all heads; where all heads are normalised together, [H D], and [K D] for keys
  key_gain,
  attention_out_weight,
  attention_out_bias,
  post1_gain,  ///< of the norm behind attention
  post1_bias,
  norm2_gain,
  norm2_bias,
  up_weight,  ///< [U, C]; with a gate its rows come first
  up_bias,
  down_weight,
  down_bias,
  post2_gain,  ///< of the norm behind the feed-forward layer
  post2_bias,
  final_gain,
  final_bias,
  head_weight,
  // The matrices of adapters (arch/adapter): A is [r, in-features] and B is [out-features, r].
  query_a,  ///< for q, k and v together where these are one matrix
  query_b,
  key_a,
  key_b,
  value_a,
  value_b,
  out_a,
  out_b,
  gate_a,
  gate_b,
  up_a,  ///< for the gate too where both are one matrix
  up_b,
  down_a,
  down_b,
  count
};

/// How a parameter starts.
struct Init {
  enum class Kind : std::uint8_t { constant, normal, uniform } kind = Kind::constant;
  float value = 0;  ///< constant: the value; normal: the standard deviation; uniform: in [-value, value)
};

struct ParameterSpec {
  layout::ParameterInfo info;
  Init init;
};

struct UnitSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;
  bool trained = true;  ///< false: beside adapters it stays as it is
};

/// Which parameters decay: those with two or more dimensions (nanoGPT's rule), or all (rasbt).
enum class DecayRule : std::uint8_t { matrices, all };

/// All units of a model in the order of the forward pass: embedding, the tied matrix when there is one, blocks, head. Behind them
/// are the adapters of each block, where there are any. Beside adapters the final norm is a unit of its own where the head is
/// trained.
std::vector<UnitSpec> unit_table(const ModelConfig& config, DecayRule decay = DecayRule::matrices);
/// What a rank holds of the table's units, placed: what stores are built from.
std::vector<layout::Unit> units_of(const std::vector<UnitSpec>& table, layout::TensorRank tensor = {});

/// Where the model finds its units in the table.
struct UnitMap {
  UnitIndex embedding;  ///< learned positions, and tokens unless tied; may have nothing
  UnitIndex tied{-1};   ///< the token table when the head shares it; -1 otherwise
  std::vector<UnitIndex> blocks;
  std::vector<UnitIndex> adapters;                       ///< of each block; empty: there are none, and all units are trained
  UnitIndex norm{-1};                                    ///< the final norm where it is apart from the head; -1 otherwise
  UnitIndex head;                                        ///< final norm, unless apart, and the head's weight unless tied
  std::vector<UnitIndex> embedding_reads;                ///< units that turn tokens into rows: the embedding, and a tied matrix
  std::vector<UnitIndex> head_reads;                     ///< units that turn rows into logits: the head, and a tied matrix
  std::vector<UnitIndex> embedding_learns, head_learns;  ///< of these, those that are trained
  Role projection = Role::head_weight;                   ///< role of the matrix in head_reads that the final norm's output meets
  int count = 0;
  bool trains_all() const { return adapters.empty(); }
  bool trains_tied() const { return std::ranges::find(head_learns, tied) != head_learns.end(); }
  /// The unit of a block that is trained: the block's own, or its adapters'.
  UnitIndex trained(std::size_t block) const { return trains_all() ? blocks[block] : adapters[block]; }
};
UnitMap unit_map(const ModelConfig& config);

/// Where the token table lies: in the embedding's unit, or, tied, in one of its own.
struct TokenTable {
  UnitIndex unit;
  std::int64_t offset = 0;  ///< in the unit
  Shape shape;              ///< [V, C]
  bool tied = false;
  std::int64_t first_token = 0;  ///< token of its first row, where ranks divide the vocabulary
};
TokenTable token_table(const std::vector<layout::Unit>& units, const UnitMap& map);

/// The trained units in the order in which a micro-batch is done with their gradients: head, tied matrix, blocks, embedding.
/// Blocks or their adapters come from the last on.
std::vector<UnitIndex> backward_order(const UnitMap& map);
/// The same order with only the units to which passes through `chunks`, one rank's, give gradients. A tied matrix is with the
/// head here: its rows from the embedding come apart.
std::vector<UnitIndex> backward_order(const UnitMap& map, const std::vector<layout::Chunk>& chunks);

/// The units that passes through `chunks` of the model read, placed, as one of the ranks that split tensors holds them. Other
/// units are empty. Where two ranks hold a tied matrix, the one with the embedding owns it.
std::vector<layout::Unit> units_of(const std::vector<UnitSpec>& table, const UnitMap& map,
                                   const std::vector<layout::Chunk>& chunks, layout::TensorRank tensor = {});

/// Parameter accounting as the start-up lines print it.
struct ParameterCounts {
  std::int64_t total = 0;              ///< every element
  std::int64_t without_positions = 0;  ///< nanoGPT's count: the learned positions left out
  std::int64_t trained = 0;            ///< elements that are trained; not all where there are adapters
  std::int64_t looked_up = 0;          ///< elements of the token table of a model whose head has a matrix of its own
  std::int64_t trained_looked_up = 0;  ///< elements of that table, if it is trained
  std::int64_t decayed_tensors = 0, decayed = 0;
  std::int64_t other_tensors = 0, other = 0;
};
ParameterCounts count_parameters(const ModelConfig& config, DecayRule decay = DecayRule::matrices);

}  // namespace lockstep::arch
