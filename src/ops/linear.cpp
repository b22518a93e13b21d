#include "ops/linear.h"

#include "ops/check.h"

namespace lockstep::ops {

void Linear::forward(const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue) {
  const std::int64_t tokens = x.rows(), in = x.columns(), out = w.rows();
  demand(in >= 1, "x", "there is at least one in-feature");
  check_matrix(x, tokens, in, "x");
  check_matrix(w, out, in, "w");
  check_matrix(y, tokens, out, "y");
  check_optional_dense(epilogue.bias, out, "bias");
  check_optional_matrix(epilogue.pre_activation, tokens, out, "pre_activation");
  check_optional_matrix(epilogue.gate, tokens, out, "gate");
  check_optional_matrix(epilogue.residual, tokens, out, "residual");
  check_device({&y, &x, &w, &epilogue.bias, &epilogue.pre_activation, &epilogue.gate, &epilogue.residual});
  do_forward(y, x, w, epilogue);
}

void Linear::backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue) {
  const std::int64_t tokens = dy.rows(), in = w.columns(), out = w.rows();
  demand(out >= 1, "dy", "there is at least one out-feature");
  check_matrix(dy, tokens, out, "dy");
  check_matrix(w, out, in, "w");
  check_matrix(dx, tokens, in, "dx");
  check_optional_matrix(epilogue.pre_activation, tokens, in, "pre_activation");
  check_optional_matrix(epilogue.activated, tokens, in, "activated");
  const bool complete = epilogue.pre_activation || (epilogue.activation == Activation::none && !epilogue.activated);
  demand(complete, "pre_activation", "an activation's derivative and value need what went in");
  demand(!epilogue.gate == !epilogue.d_gate, "gate", "it comes with a place for its gradient");
  demand(!epilogue.gate || epilogue.pre_activation, "gate", "it comes with what it multiplied");
  check_optional_matrix(epilogue.gate, tokens, in, "gate");
  check_optional_matrix(epilogue.d_gate, tokens, in, "d_gate");
  check_device({&dx, &dy, &w, &epilogue.pre_activation, &epilogue.gate, &epilogue.d_gate, &epilogue.activated});
  do_backward_input(dx, dy, w, epilogue);
}

void Linear::backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate) {
  check_matrix(dy, x.rows(), dy.columns(), "dy");
  check_matrix(x, x.rows(), x.columns(), "x");
  check_matrix(dw, dy.columns(), x.columns(), "dw");
  check_optional_dense(db, dy.columns(), "db");
  check_device({&dw, &db, &dy, &x});
  do_backward_weight(dw, db, dy, x, accumulate);
}

}  // namespace lockstep::ops
