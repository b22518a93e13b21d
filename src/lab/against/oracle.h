#pragma once

// One training step's forward and backward pass in double, written to be read: the oracle of `verify --against`. It computes the
// right answer. It also computes what a step gives that is done in one of the wrong ways that a question names. Nothing trains
// with it.

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
  std::vector<std::int64_t> tokens = {}, targets = {};  ///< a negative target has no loss
  /// Tokens of a row see those with the same document number. Padding has a negative number, and sees all other padding.
  std::vector<std::int64_t> positions = {}, documents = {};
};

/// A wrong rank that takes its part of something for the whole.
struct OnlyPart {
  std::int64_t number = 0, parts = 1;
  bool has(std::int64_t i, std::int64_t count) const { return i * parts / count == number || parts == 1; }
};

/// Results of a block and of the model. post1, post2: norms behind branches. head: the product, before logits are scaled and
/// capped.
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

/// Wrong ways to compute a step that leave model, batch and each token's share of the loss as they are. The defaults are right.
struct Ways {
  std::int64_t sees_ahead = 0;      ///< so many later positions are seen; -1: not even a position's own
  bool neighbours_rotated = false;  ///< rotary pairs are neighbours, in place of halves of a head
  bool turned_back = false;         ///< rotary angles have the other sign
  std::int64_t kv_turns = 0;        ///< heads are in so many parts; in each, query head h reads h % K, not h / (H / K)
  std::int64_t qkv_groups = 1;      ///< the fused rows are read as this many groups, each of queries, keys and values
  bool gate_swapped = false;        ///< the activation is applied to the half that the gate multiplies
  std::vector<std::int64_t> query_slots = {}, key_slots = {};  ///< the mask's position of each position; empty: in order
  std::vector<std::int64_t> key_parts = {};                    ///< keys get gradients of queries in the same part; empty: of all
  std::vector<bool> own_positions = {};                        ///< positions whose gradients of parameters are added; empty: all
  double score_factor = 1;                                     ///< factor of the attention's scores
  std::int64_t padded_vocabulary = 0;                          ///< the softmax has this many logits; the added ones are 0
  // Sums over tensor ranks. `out_sum`: forward, behind row-parallel products, before a bias is added. `in_sum`: backward, of the
  // inputs of column-parallel products.
  OnlyPart out_sum = {}, in_sum = {};
  Place summed = Place::block;  ///< the place of these two sums; Place::block: at all such products
  double out_times = 1, out_slope_times = 1, in_slope_times = 1, out_bias_times = 1;
  OnlyPart norm_positions = {};            ///< positions of a sample whose gradients of norms and output biases are added
  double head_share = 1, table_share = 1;  ///< shares of head and table in a tied matrix's gradient
  // Parts that are left out of the model.
  std::int64_t left_out_block = -1;
  bool no_attention_residual = false, no_mlp_residual = false, no_places = false, no_final_norm = false, no_qkv_bias = false;
  double variance_less = 0;    ///< norms divide by this many fewer than the number of squares
  bool softmax_twice = false;  ///< the loss takes probabilities for logits
  // What is added to the loss: `smoothing` times the mean loss of all tokens, and `squared_log` times the squared logarithm of
  // the sum.
  double smoothing = 0, squared_log = 0;
};

struct Question {
  arch::ModelConfig config;
  std::shared_ptr<const std::vector<Values>> weights;  ///< by parameter, in the order of unit_table()
  Batch batch;
  Values shares;       ///< weight of each token's loss in the function whose gradient is taken
  Values loss_shares;  ///< weight of each token's loss in the loss that is reported
  Ways ways = {};
};

/// How numbers are stored between operations, to bound rounding errors. They are rounded up or down at random. That has twice the
/// error of rounding to the nearest, and makes no two walks alike. Products are added in float.
struct Rounding {
  int fraction_bits = 23;
  double least = 0;  ///< distance between the smallest numbers
  std::uint64_t seed = 1;
};

struct Walked {
  std::map<Spot, Values> activations;  ///< one row for each token
  Values losses;                       ///< by token; 0 where a token has no target
  double loss = 0;
  std::vector<Values> gradients;  ///< by parameter
};

/// Computes a question's forward and backward pass. `rounding`: null for double throughout.
Walked walk(const Question& question, const Rounding* rounding = nullptr);

/// The factor of attention's scores.
double score_scale(const arch::ModelConfig& config);

/// The model's parameters in the order of unit_table().
std::vector<layout::ParameterInfo> parameters_of(const arch::ModelConfig& config);

}  // namespace lockstep::lab::against
