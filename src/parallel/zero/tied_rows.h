#pragma once

// E of a tied matrix: the embedding's part of its gradient, rows by token. It is kept apart from H (the head's part), reduced
// apart and added once, as H + E, in every layout (numerics.md section 3.6). Only rows that some rank has seen travel.

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "ops/embedding.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

class TiedRows {
 public:
  /// A vocabulary of V rows of `width`; a step of `tokens` on every rank of `group`, which outlives this.
  TiedRows(std::int64_t vocabulary, std::int64_t width, std::int64_t tokens, comm::Communicator& group);
  void declare(Arena& gradients, Arena& activations, Arena& workspace);

  /// [V, C] f32, where the step's rows accumulate; zero between steps.
  const Tensor& table() const { return table_; }
  /// h [V, C] += the rows, reduced over the group. `tokens` [n] i32, n at most the step's: every row of the table that is not 0.
  /// Collective, after the head's part was reduced. The table is zero afterwards.
  void add_to(const Tensor& h, const Tensor& tokens, ops::Embedding& embedding);

 private:
  std::int64_t mark_rows();

  std::int64_t vocabulary_, width_, tokens_;
  comm::Communicator& group_;
  Tensor table_;
  Tensor packed_;             ///< [min(V, all tokens), C]: rows under way
  Tensor all_tokens_, rows_;  ///< i32: every rank's tokens; which rows travel, in order
  std::vector<std::uint8_t> seen_;
  std::vector<std::int64_t> counts_;
};

}  // namespace lockstep::parallel
