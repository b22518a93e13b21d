#include "ops/embedding.h"

#include "ops/check.h"

namespace lockstep::ops {

void Embedding::forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                        const Positions& positions, std::int64_t first_token, const Tensor& starts) {
  const DType type = storage_of(y, "y");
  check_matrix(y, y.rows(), y.columns(), "y", type);
  check_dense(tokens, y.rows(), "tokens", DType::i32);
  check_matrix(token_table, token_table.rows(), y.columns(), "token_table", type);
  check_optional_matrix(position_table, position_table.rows(), y.columns(), "position_table", type);
  check_samples(y, positions, "y");
  demand(!position_table || starts || positions.end() <= position_table.rows(), "position_table",
         "it has a row for every position");
  demand(first_token >= 0, "token_table", "its first token is not negative");
  check_starts(starts, y.rows() / positions.count(), positions.end());
  check_device({&y, &tokens, &token_table, &position_table, &starts});
  const OpScope running = scope("forward");
  do_forward(y, tokens, token_table, position_table, positions, first_token, starts);
}

void Embedding::backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token) {
  check_matrix(dy, dy.rows(), dy.columns(), "dy", storage_of(dy, "dy"));
  check_dense(tokens, dy.rows(), "tokens", DType::i32);
  check_matrix(d_tokens, d_tokens.rows(), dy.columns(), "d_tokens");
  demand(first_token >= 0, "d_tokens", "its first token is not negative");
  check_device({&d_tokens, &dy, &tokens});
  const OpScope running = scope("backward_tokens");
  do_backward_tokens(d_tokens, dy, tokens, first_token);
}

void Embedding::backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                                const SumGrid& grid, const Tensor& workspace) {
  check_matrix(dy, dy.rows(), dy.columns(), "dy", storage_of(dy, "dy"));
  check_dense(tokens, dy.rows(), "tokens", DType::i32);
  check_matrix(d_tokens, d_tokens.rows(), dy.columns(), "d_tokens");
  check_dense(workspace, 2 * dy.rows(), "workspace", DType::i64);
  demand(first_token >= 0, "d_tokens", "its first token is not negative");
  std::int64_t end = 0;
  for (const std::vector<IndexRun>& range : grid.ranges) {
    demand(range.size() == 1 && range.front().first == end, "grid", "a range of tokens is one run, behind the one before");
    end = range.front().end();
  }
  demand(end == dy.rows(), "grid", "its ranges have every token once");
  check_device({&d_tokens, &dy, &tokens, &workspace});
  const OpScope running = scope("backward_tokens");
  do_backward_tokens(d_tokens, dy, tokens, first_token, grid, workspace);
}

void Embedding::backward_positions(const Tensor& d_table, const Tensor& dy, const Positions& positions, bool accumulate,
                                   const Tensor& starts) {
  check_matrix(dy, dy.rows(), dy.columns(), "dy", storage_of(dy, "dy"));
  check_matrix(d_table, d_table.rows(), dy.columns(), "d_table");
  check_samples(dy, positions, "dy");
  demand(positions.end() <= d_table.rows(), "d_table", "it has a row for every position");
  check_starts(starts, dy.rows() / positions.count(), positions.end());
  check_device({&d_table, &dy, &starts});
  const OpScope running = scope("backward_positions");
  do_backward_positions(d_table, dy, positions, accumulate, starts);
}

void Embedding::add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) {
  check_matrix(sum, sum.rows(), sum.columns(), "sum");
  check_matrix(part, sum.rows(), sum.columns(), "part");
  check_dense(tokens, tokens.elements(), "tokens", DType::i32);
  check_device({&sum, &part, &tokens});
  const OpScope running = scope("add_rows");
  do_add_rows(sum, part, tokens);
}

void Embedding::take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) {
  check_matrix(rows, tokens.elements(), part.columns(), "rows");
  check_matrix(part, part.rows(), part.columns(), "part");
  check_dense(tokens, tokens.elements(), "tokens", DType::i32);
  check_device({&rows, &part, &tokens});
  const OpScope running = scope("take_rows");
  do_take_rows(rows, part, tokens);
}

}  // namespace lockstep::ops
