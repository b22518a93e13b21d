#pragma once

// One training step's forward and backward pass in double, written to be read: the oracle of `verify --against`. It computes the
// right answer, and what comes out when a step is done in one of the wrong ways that its questions name. Nothing trains with it.

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "arch/config.h"
#include "arch/parameters.h"

namespace lockstep::lab::against {

using Values = std::vector<double>;

/// The samples of a whole step, a row each.
struct Batch {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> tokens = {}, targets = {};  ///< a negative target is not taught
  /// Tokens of a row see those with the document's number. Padding has a negative one, and sees all that is none.
  std::vector<std::int64_t> positions = {}, documents = {};
};

/// What a rank of several does wrong: it takes its part of something for the whole.
struct OnlyPart {
  std::int64_t number = 0, parts = 1;
  bool has(std::int64_t i, std::int64_t count) const { return i * parts / count == number || parts == 1; }
};

/// post1, post2: of norms behind branches. head: the product, before logits are scaled and capped.
enum class Place : std::uint8_t {
  embedding,
  norm1,
  qkv,
  attention_out,
  post1,
  norm2,
  up,
  activated,
  down,
  post2,
  block,
  final_norm,
  head,
  logits
};
/// A place and the block's number.
using Spot = std::pair<Place, std::int64_t>;

/// Wrong ways to compute a step which are no other model, batch or share of a token. The defaults are right.
struct Ways {
  std::int64_t sees_ahead = 0;      ///< positions that each sees behind its own; -1: not even its own
  bool neighbours_rotated = false;  ///< rotary pairs are neighbours, in place of halves of a head
  bool turned_back = false;         ///< rotary angles have the other sign
  std::int64_t kv_turns = 0;        ///< in each of this many parts of the heads, query head h reads h % K, not h / (H / K)
  std::int64_t qkv_groups = 1;      ///< the fused rows are read as this many groups, each of queries, keys and values
  bool gate_swapped = false;        ///< the activation is taken of what the gate should multiply
  std::vector<std::int64_t> query_slots = {}, key_slots = {};  ///< where the mask has each position; empty: in order
  std::vector<std::int64_t> key_parts = {};                    ///< keys get gradients of queries in the same part; empty: of all
  std::vector<bool> own_positions = {};                        ///< that parameters' gradients add up; empty: all
  double score_factor = 1;                                     ///< of the attention's scores
  std::int64_t padded_vocabulary = 0;                          ///< the softmax has this many logits, the further ones 0
  // Sums over tensor ranks, behind which a bias is added: forward, and backward where column-parallel products come from.
  OnlyPart out_sum = {}, in_sum = {};
  Place summed = Place::block;  ///< where those two are; Place::block: behind and before all such products
  double out_times = 1, out_slope_times = 1, in_slope_times = 1, out_bias_times = 1;
  OnlyPart norm_positions = {};            ///< of a sample: what gradients of norms and output biases add up
  double head_share = 1, table_share = 1;  ///< of a tied matrix's gradient
  // What is left out of the model.
  std::int64_t left_out_block = -1;
  bool no_attention_residual = false, no_mlp_residual = false, no_places = false, no_final_norm = false, no_qkv_bias = false;
  double variance_less = 0;    ///< norms divide squares by this many fewer than there are
  bool softmax_twice = false;  ///< the loss takes probabilities for logits
  // What the loss has besides: the mean of all tokens' losses, with this share, and this many times the squared log of the sum.
  double smoothing = 0, squared_log = 0;
};

struct Question {
  arch::ModelConfig config;
  std::shared_ptr<const std::vector<Values>> weights;  ///< by parameter, in the order of unit_table()
  Batch batch;
  Values shares;       ///< of each token's loss in the function whose gradient is taken
  Values loss_shares;  ///< and in the loss that is told
  Ways ways = {};
};

/// How numbers are kept between operations, to bound what rounding does. They are rounded up or down by chance. That is twice the
/// error of rounding to the nearest, and makes no two walks alike. Products are added in float.
struct Rounding {
  int fraction_bits = 23;
  double least = 0;  ///< distance of the smallest numbers
  std::uint64_t seed = 1;
};

struct Walked {
  std::map<Spot, Values> activations;  ///< a row a token
  Values losses;                       ///< by token; 0 where nothing is taught
  double loss = 0;
  std::vector<Values> gradients;  ///< by parameter
};

/// `rounding`: null for double throughout.
Walked walk(const Question& question, const Rounding* rounding = nullptr);

/// What attention's scores are multiplied by.
double score_scale(const arch::ModelConfig& config);

/// The model's parameters in the order of unit_table().
std::vector<layout::ParameterInfo> parameters_of(const arch::ModelConfig& config);

}  // namespace lockstep::lab::against
