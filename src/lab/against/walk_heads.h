#pragma once

// Attention of the oracle's walk: from fused rows of queries, keys and values to the outputs of the heads.

#include <cstdint>
#include <vector>

#include "lab/against/oracle.h"
#include "lab/against/tape.h"

namespace lockstep::lab::against {

class HeadWalk {
 public:
  /// Question and tape outlive this.
  HeadWalk(const Question& question, Tape& tape);

  struct Call {
    std::int64_t block = 0, row = 0;  ///< number of the model's block; row of the batch
    Node *query_gain = nullptr, *key_gain = nullptr;
  };
  /// The outputs of the heads [T, H D] from qkv [T, (H + 2 K) D].
  Node& attend(Node& qkv, const Call& call);

 private:
  /// One query head's attention at one position: offsets in qkv and in the outputs, and the weights of the rows that it sees.
  struct Look {
    std::int64_t query, out, key, value;  // keys and values: from the start of their rows
    std::vector<std::int64_t> rows;
    Values weights, slopes;  // slopes: of capped scores
  };
  std::int64_t of(const std::vector<std::int64_t>& numbers, std::int64_t row, std::int64_t t) const {
    return numbers[at(row * t_ + t)];
  }
  std::int64_t width() const { return q_width_ + 2 * kv_width_; }
  /// Separates queries, keys and values from rows that lie group by group.
  Node& regroup(Node& x);
  Node& norm(Node& x, const Call& call);
  Node& rotate(Node& x, const Call& call);
  /// Rotates queries and keys of all rows by their angles times `direction`.
  void turn(Values& values, const Call& call, double direction) const;
  bool sees(const Call& call, std::int64_t from, std::int64_t to) const;
  Look look(const Values& qkv, const Call& call, std::int64_t h, std::int64_t i);
  void look_back(Node& x, const double* slope, const Look& seen);

  const Question& q_;
  const arch::ModelConfig& c_;
  Tape& tape_;
  std::int64_t t_, q_width_, kv_width_;
  std::vector<float> frequencies_, local_frequencies_;  // radians a position, of each pair that is turned
};

}  // namespace lockstep::lab::against
