#include "ops/linear.h"

#include <bit>

#include "ops/check.h"

namespace lockstep::ops {

namespace {

bool is_plain(const Epilogue& epilogue) {
  return epilogue.activation == Activation::none && !epilogue.bias && !epilogue.pre_activation && !epilogue.gate &&
         !epilogue.residual;
}

bool is_plain(const InputEpilogue& epilogue) { return !epilogue.pre_activation; }

// Sums that nothing is done with are left where they are.
void check_sums(const Tensor& sums, const Tensor& out, bool plain) {
  if (!sums) return;
  check_matrix(sums, out.rows(), out.columns(), "sums", DType::f32);
  const bool same = sums.data == out.data && sums.stride() == out.stride();
  demand(!plain || out.dtype != DType::f32 || same, "sums", "f32 that nothing is done with goes on in its place");
}

// Ranges of an index of `count` elements: `all` of them, or what is in none is left out.
void check_grid(const SumGrid* grid, std::int64_t count, bool all = true) {
  if (grid == nullptr) return;
  demand(std::has_single_bit(grid->ranges.size()), "grid", "its ranges are a power of two");
  std::int64_t elements = 0;
  for (const std::vector<IndexRun>& range : grid->ranges) {
    for (const IndexRun& run : range) {
      demand(run.first >= 0 && run.count >= 0 && run.end() <= count, "grid", "its ranges lie within the index");
      elements += run.count;
    }
  }
  demand(elements <= count && (elements == count || !all), "grid", "its ranges have every element of the index once");
}

// The gradient of logits stays f32 beside bf16.
DType gradient_type(const Tensor& dy, DType storage) { return dy.dtype == DType::f32 ? DType::f32 : storage; }

}  // namespace

void Linear::forward(const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue) {
  const std::int64_t tokens = x.rows(), in = x.columns(), out = w.rows();
  const DType type = storage_of(x, "x");
  demand(in >= 1, "x", "there is at least one in-feature");
  check_matrix(x, tokens, in, "x", type);
  check_weights(w, out, in, "w", type);
  demand(w.order == Order::rows || packs(), "w", "it was prepacked by kernels that are not these");
  check_matrix(y, tokens, out, "y", is_plain(epilogue) && y.dtype == DType::f32 ? DType::f32 : type);
  check_optional_dense(epilogue.bias, out, "bias", type);
  check_optional_matrix(epilogue.pre_activation, tokens, out, "pre_activation", type);
  check_optional_matrix(epilogue.gate, tokens, out, "gate", type);
  check_optional_matrix(epilogue.residual, tokens, out, "residual", type);
  check_grid(epilogue.grid, in);
  demand(epilogue.grid == nullptr || (w.order == Order::rows && !epilogue.sums), "w",
         "what is summed by ranges is whole and not prepacked");
  check_sums(epilogue.sums, y, is_plain(epilogue));
  check_device({&y, &x, &w, &epilogue.bias, &epilogue.pre_activation, &epilogue.gate, &epilogue.residual, &epilogue.sums});
  const OpScope running = scope("forward", LayerProduct::forward, tokens, out, in);
  do_forward(y, x, w, epilogue);
}

Tensor Linear::prepack(const Tensor& w, const Tensor& to) {
  check_matrix(w, w.rows(), w.columns(), "w", storage_of(w, "w"));
  demand(w.dense(), "w", "it is dense");
  check_matrix(to, w.rows(), w.columns(), "to", w.dtype);
  demand(to.dense(), "to", "it is dense");
  check_device({&w, &to});
  const OpScope running = scope("prepack");
  if (!packs() || !do_prepack(w, to)) return w;
  Tensor packed = to;
  packed.order = Order::tiles;
  return packed;
}

void Linear::backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue) {
  const std::int64_t tokens = dy.rows(), in = w.columns(), out = w.rows();
  const DType type = storage_of(w, "w");
  demand(out >= 1, "dy", "there is at least one out-feature");
  check_matrix(dy, tokens, out, "dy", gradient_type(dy, type));
  check_matrix(w, out, in, "w", type);
  check_matrix(dx, tokens, in, "dx", is_plain(epilogue) && dx.dtype == DType::f32 ? DType::f32 : type);
  check_optional_matrix(epilogue.pre_activation, tokens, in, "pre_activation", type);
  check_optional_matrix(epilogue.activated, tokens, in, "activated", type);
  const bool complete = epilogue.pre_activation || (epilogue.activation == Activation::none && !epilogue.activated);
  demand(complete, "pre_activation", "an activation's derivative and value need what went in");
  demand(!epilogue.gate == !epilogue.d_gate, "gate", "it comes with a place for its gradient");
  demand(!epilogue.gate || epilogue.pre_activation, "gate", "it comes with what it multiplied");
  check_optional_matrix(epilogue.gate, tokens, in, "gate", type);
  check_optional_matrix(epilogue.d_gate, tokens, in, "d_gate", type);
  check_grid(epilogue.grid, out, false);
  demand(epilogue.grid == nullptr || !epilogue.sums, "sums", "what is summed by ranges is whole");
  check_sums(epilogue.sums, dx, is_plain(epilogue));
  check_device({&dx, &dy, &w, &epilogue.pre_activation, &epilogue.gate, &epilogue.d_gate, &epilogue.activated, &epilogue.sums});
  const OpScope running = scope("backward_input", LayerProduct::input_gradient, tokens, out, in);
  do_backward_input(dx, dy, w, epilogue);
}

void Linear::backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate,
                             const SumGrid* grid) {
  const DType type = storage_of(x, "x");
  check_matrix(dy, x.rows(), dy.columns(), "dy", gradient_type(dy, type));
  check_matrix(x, x.rows(), x.columns(), "x", type);
  check_matrix(dw, dy.columns(), x.columns(), "dw");
  check_optional_dense(db, dy.columns(), "db");
  check_grid(grid, x.rows());
  check_device({&dw, &db, &dy, &x});
  const OpScope running = scope("backward_weight", LayerProduct::weight_gradient, x.rows(), dy.columns(), x.columns());
  do_backward_weight(dw, db, dy, x, accumulate, grid);
}

}  // namespace lockstep::ops
