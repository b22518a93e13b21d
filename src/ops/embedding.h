#pragma once

// Token and position rows. B samples, T positions, C width, V vocabulary. Tables and activations are f32 or bf16, all the same;
// the tables' gradients are f32. A token table may be a part of the vocabulary: its rows are tokens [first_token, first_token +
// rows), and other tokens are somewhere else's.

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
  /// d_tokens, the gradient of a token table, f32, += rows of dy by token: per row, tokens in fixed blocks of 64 in order
  /// (numerics.md section 3.2). Only rows that occur in `tokens` are touched.
  void backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token = 0);
  /// The same by ranges of the tokens: what each has for a row is summed in order, and the ranges' sums as a tree does.
  /// `workspace` [2 n] i64, of n tokens. A range is one run, behind the one before.
  void backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                       const SumGrid& grid, const Tensor& workspace);
  /// d_table [P, C] f32, a row for each position, (+)= rows of dy by position, samples in order in blocks of 64. Rows of
  /// positions that dy has not are set to zero when not accumulating. With `starts` of documents positions are those in
  /// documents, and rows are added one by one, in order.
  void backward_positions(const Tensor& d_table, const Tensor& dy, const Positions& positions, bool accumulate,
                          const Tensor& starts = {});
  /// sum[row] += part[row] and part[row] = 0 for every row that occurs in `tokens` (a tied matrix: H + E, numerics.md
  /// section 3.6).
  void add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens);
  /// rows [n, C] = the rows of part [V, C] by `tokens` [n], which are distinct; they are zero in part afterwards.
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
