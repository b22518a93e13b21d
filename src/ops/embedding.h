#pragma once

// Token and position rows. B samples, T positions, C width, V vocabulary. Tables and activations are f32 or bf16, all the same;
// the tables' gradients are f32. A token table may be a part of the vocabulary: its rows are tokens [first_token, first_token +
// rows), and other ranks have the other tokens.

#include "ops/op_scope.h"
#include "ops/positions.h"
#include "ops/sum_grid.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

class Embedding : public Family {
 public:
  explicit Embedding(OpObserver* observer) : Family("embedding", observer) {}
  /// y [B*T, C] = token_table[token] + position_table[p]. Here p is the row's position, counted in its document where there are
  /// `starts`. `position_table` may be empty. `tokens` [B*T] i32 are all in [0, V), as was checked when the batch was made. A
  /// token that the table lacks gets a row of zeros, without its position's row. So a sum over the parts of a vocabulary is the
  /// whole vocabulary's result, with the same bits.
  void forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
               const Positions& positions, std::int64_t first_token = 0, const Tensor& starts = {});
  /// Adds rows of dy, by token, to d_tokens [rows, C] f32, the gradient of a token table. Each of its rows sums tokens in fixed
  /// blocks of 64 in order (numerics.md section 3.2). Only rows that occur in `tokens` are touched.
  void backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token = 0);
  /// backward_tokens() with sums by ranges of the tokens (ops/sum_grid.h). What a range has for a row is summed in order. The
  /// ranges' sums are added as a tree. `workspace` [2 n] i64 for n tokens. A range is one run and follows the one before.
  void backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                       const SumGrid& grid, const Tensor& workspace);
  /// d_table [P, C] f32, a row for each position, (+)= rows of dy by position, samples in order in blocks of 64. Without
  /// `accumulate`, rows of positions that dy lacks become zero. With `starts`, positions count in documents, and rows are added
  /// one by one, in order.
  void backward_positions(const Tensor& d_table, const Tensor& dy, const Positions& positions, bool accumulate,
                          const Tensor& starts = {});
  /// sum[row] += part[row] and part[row] = 0 for every row that occurs in `tokens`. A tied matrix needs it (H + E, numerics.md
  /// section 3.6).
  void add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens);
  /// Moves the rows of part [V, C] that `tokens` [n] name to rows [n, C]. The tokens are distinct. In `part` these rows are zero
  /// afterwards.
  void take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens);

 private:
  virtual void do_forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                          const Positions& positions, std::int64_t first_token, const Tensor& starts) = 0;
  virtual void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token) = 0;
  virtual void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                                  const SumGrid& grid, const Tensor& workspace) = 0;
  virtual void do_backward_positions(const Tensor& d_table, const Tensor& dy, const Positions& positions, bool accumulate,
                                     const Tensor& starts) = 0;
  virtual void do_add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) = 0;
  virtual void do_take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) = 0;
};

}  // namespace lockstep::ops
