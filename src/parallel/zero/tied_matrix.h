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

class TiedMatrix {
 public:
  /// `shape` [V, C]; a step reads at most `tokens` on every rank of `group`. The references outlive this.
  TiedMatrix(const Shape& shape, std::int64_t tokens, comm::Communicator& group, ops::Ops& ops);
  void declare(Arena& gradients, Arena& activations, Arena& workspace);

  /// A new step: E is zero.
  void begin();
  /// The step reads `tokens` [n] i32, in host memory.
  void expect(const Tensor& tokens);
  /// E [V, C] f32, for the rows of the step's tokens.
  const Tensor& open_rows();
  /// E as this rank has it, until the next begin() or reduce_rows().
  const Tensor& rows() const { return rows_; }
  /// Sums E over the group. Collective; afterwards E is to be had from add_rows() alone.
  void reduce_rows();
  /// h += E's elements from `first` on: `h` is flat, f32, and may reach beyond the matrix (a unit's padding). Once an element.
  void add_rows(const Tensor& h, std::int64_t first);

 private:
  struct Span {
    std::int64_t first, last;
  };
  bool alone() const { return group_.size() == 1; }
  void list_rows();
  /// Elements of the matrix, within one row.
  void add_part(const Tensor& h, std::int64_t origin, Span elements);
  /// Rows of the matrix.
  void add_whole(const Tensor& h, std::int64_t origin, Span rows);

  std::int64_t vocabulary_, width_, tokens_;
  comm::Communicator& group_;
  ops::Ops& ops_;
  Tensor rows_;                     ///< [V, C] f32: E
  Tensor packed_;                   ///< [min(V, all tokens), C] f32: the rows that travel
  Mirror listed_;                   ///< [min(V, all tokens)] i32: which rows these are, ascending
  std::int64_t count_ = 0;          ///< of them
  std::vector<std::int32_t> seen_;  ///< [V]: 1 for a row that a token of this step names
  bool used_ = false;               ///< rows of E may differ from zero
};

}  // namespace lockstep::parallel
