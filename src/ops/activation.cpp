#include "ops/activation.h"

#include "ops/check.h"

namespace lockstep::ops {

void Activations::forward(const Tensor& y, const Tensor& x, Activation f) {
  const DType type = storage_of(x, "x");
  check_matrix(x, x.rows(), x.columns(), "x", type);
  check_matrix(y, x.rows(), x.columns(), "y", type);
  check_device({&y, &x});
  const OpScope running = scope("forward");
  do_forward(y, x, f);
}

void Activations::backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f) {
  const DType type = storage_of(x, "x");
  check_matrix(x, x.rows(), x.columns(), "x", type);
  check_matrix(dx, x.rows(), x.columns(), "dx", type);
  check_matrix(dy, x.rows(), x.columns(), "dy", type);
  check_optional_matrix(y, x.rows(), x.columns(), "y", type);
  check_device({&dx, &y, &dy, &x});
  const OpScope running = scope("backward");
  do_backward(dx, y, dy, x, f);
}

}  // namespace lockstep::ops
