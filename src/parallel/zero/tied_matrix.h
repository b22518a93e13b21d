#pragma once

// The gradient of a matrix that embedding and head share. H, the head's part, is dense and lies in the gradient store; E, the
// embedding's part, is rows by token and lies here. They are kept apart, reduced apart and added once, as H + E, in every layout
// (numerics.md section 3.6), and by ranges of elements, since a rank may hold any range of H. Only rows that some rank has seen
// travel.

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Where gradients and what is needed to add them up take memory.
struct GradientArenas {
  Arena &gradients, &activations, &workspace;
};

/// What a rank keeps of a tied matrix's gradient beside H.
struct TiedMatrixMemory {
  /// `shape` [V, C]; a step reads at most `tokens` on each of the `ranks` whose rows are added up.
  void declare(const GradientArenas& arenas, const Shape& shape, std::int64_t tokens, int ranks);

  Tensor rows;    ///< [V, C] f32: E
  Tensor packed;  ///< [min(V, all tokens), C] f32: the rows that travel; none where there is one rank
  Mirror listed;  ///< [min(V, all tokens)] i32: which rows these are, ascending
};

class TiedMatrix {
 public:
  /// `memory` is declared for the ranks of `group`; its first row is that of token `first_token`, where other ranks have the rest
  /// of the vocabulary. All outlive this.
  TiedMatrix(const TiedMatrixMemory& memory, comm::Communicator& group, ops::Ops& ops, std::int64_t first_token = 0);

  /// A new step: E is zero.
  void begin();
  /// The step reads `tokens` [n] i32, in host memory.
  void expect(const Tensor& tokens);
  /// E [V, C] f32, for the rows of the step's tokens.
  const Tensor& open_rows();
  /// E as this rank has it, until the next begin() or reduce_rows().
  const Tensor& rows() const { return memory_.rows; }
  /// Sums E over the group. Collective; afterwards E is to be had from add_rows() alone.
  void reduce_rows();
  /// h += E's elements from `first` on: `h` is flat, f32, and may reach beyond the matrix (a unit's padding). Once an element.
  void add_rows(const Tensor& h, std::int64_t first);

 private:
  struct Span {
    std::int64_t first, last;
  };
  bool alone() const { return group_.size() == 1; }
  std::int64_t vocabulary() const { return memory_.rows.rows(); }
  std::int64_t width() const { return memory_.rows.columns(); }
  void list_rows();
  /// Elements of the matrix, within one row.
  void add_part(const Tensor& h, std::int64_t origin, Span elements);
  /// Rows of the matrix.
  void add_whole(const Tensor& h, std::int64_t origin, Span rows);

  const TiedMatrixMemory& memory_;
  comm::Communicator& group_;
  ops::Ops& ops_;
  std::int64_t first_token_;
  std::int64_t count_ = 0;          ///< of the rows that are listed
  std::vector<std::int32_t> seen_;  ///< [V]: 1 for a row that a token of this step names
  bool used_ = false;               ///< rows of E may differ from zero
};

}  // namespace lockstep::parallel
