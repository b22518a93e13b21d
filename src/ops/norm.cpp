#include "ops/norm.h"

#include "ops/check.h"

namespace lockstep::ops {
namespace {

/// The storage type of the call.
DType check_inputs(const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) {
  const DType type = storage_of(x, "x");
  check_matrix(x, x.rows(), x.columns(), "x", type);
  demand(x.columns() > 0, "x", "there are columns");
  check_dense(stats, 2 * x.rows(), "stats");
  check_dense(gain, x.columns(), "gain", type);
  check_optional_dense(bias, x.columns(), "bias", type);
  return type;
}

}  // namespace

void Norm::forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                   const Tensor& residual) {
  const DType type = check_inputs(stats, x, gain, bias);
  check_matrix(n, x.rows(), x.columns(), "n", type);
  check_optional_matrix(residual, x.rows(), x.columns(), "residual", type);
  check_device({&n, &stats, &x, &gain, &bias, &residual});
  demand(eps > 0, "eps", "it is positive");
  const OpScope running = scope("forward");
  do_forward(n, stats, x, gain, bias, eps, residual);
}

void Norm::apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) {
  const DType type = check_inputs(stats, x, gain, bias);
  check_matrix(n, x.rows(), x.columns(), "n", type);
  check_device({&n, &stats, &x, &gain, &bias});
  const OpScope running = scope("apply");
  do_apply(n, stats, x, gain, bias);
}

void Norm::backward(const NormBackward& call) {
  const std::int64_t rows = call.x.rows(), columns = call.x.columns();
  const DType type = check_inputs(call.stats, call.x, call.gain, call.bias);
  check_matrix(call.dx, rows, columns, "dx", type);
  check_matrix(call.dn, rows, columns, "dn", type);
  check_optional_matrix(call.n, rows, columns, "n", type);
  check_optional_matrix(call.residual, rows, columns, "residual", type);
  check_optional_dense(call.d_gain, columns, "d_gain");
  demand(call.d_gain || !call.d_bias, "d_bias", "it comes with d_gain");
  check_optional_dense(call.d_bias, columns, "d_bias");
  check_device(
      {&call.dx, &call.n, &call.d_gain, &call.d_bias, &call.dn, &call.x, &call.stats, &call.gain, &call.bias, &call.residual});
  const OpScope running = scope("backward");
  do_backward(call);
}

}  // namespace lockstep::ops
