#include "ops/embedding.h"

#include "ops/check.h"

namespace lockstep::ops {

void Embedding::forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                        std::int64_t positions, std::int64_t first_position) {
  const DType type = storage_of(y, "y");
  check_matrix(y, y.rows(), y.columns(), "y", type);
  check_dense(tokens, y.rows(), "tokens", DType::i32);
  check_matrix(token_table, token_table.rows(), y.columns(), "token_table", type);
  check_optional_matrix(position_table, position_table.rows(), y.columns(), "position_table", type);
  demand(positions > 0 && y.rows() % positions == 0, "y", "the rows are whole samples");
  demand(first_position >= 0 && (!position_table || first_position + positions <= position_table.rows()), "position_table",
         "it has a row for every position");
  check_device({&y, &tokens, &token_table, &position_table});
  do_forward(y, tokens, token_table, position_table, positions, first_position);
}

void Embedding::backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens) {
  check_matrix(dy, dy.rows(), dy.columns(), "dy", storage_of(dy, "dy"));
  check_dense(tokens, dy.rows(), "tokens", DType::i32);
  check_matrix(d_tokens, d_tokens.rows(), dy.columns(), "d_tokens");
  check_device({&d_tokens, &dy, &tokens});
  do_backward_tokens(d_tokens, dy, tokens);
}

void Embedding::backward_positions(const Tensor& d_positions, const Tensor& dy, std::int64_t positions, bool accumulate) {
  check_matrix(dy, dy.rows(), dy.columns(), "dy", storage_of(dy, "dy"));
  check_matrix(d_positions, d_positions.rows(), dy.columns(), "d_positions");
  demand(positions > 0 && dy.rows() % positions == 0, "dy", "the rows are whole samples");
  demand(positions <= d_positions.rows(), "d_positions", "it has a row for every position");
  check_device({&d_positions, &dy});
  do_backward_positions(d_positions, dy, positions, accumulate);
}

void Embedding::add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) {
  check_matrix(sum, sum.rows(), sum.columns(), "sum");
  check_matrix(part, sum.rows(), sum.columns(), "part");
  check_dense(tokens, tokens.elements(), "tokens", DType::i32);
  check_device({&sum, &part, &tokens});
  do_add_rows(sum, part, tokens);
}

void Embedding::take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) {
  check_matrix(rows, tokens.elements(), part.columns(), "rows");
  check_matrix(part, part.rows(), part.columns(), "part");
  check_dense(tokens, tokens.elements(), "tokens", DType::i32);
  check_device({&rows, &part, &tokens});
  do_take_rows(rows, part, tokens);
}

}  // namespace lockstep::ops
