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

void Norm::forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps) {
  const DType type = check_inputs(stats, x, gain, bias);
  check_matrix(n, x.rows(), x.columns(), "n", type);
  check_device({&n, &stats, &x, &gain, &bias});
  demand(eps > 0, "eps", "it is positive");
  const OpScope running = scope("forward");
  do_forward(n, stats, x, gain, bias, eps);
}

void Norm::apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) {
  const DType type = check_inputs(stats, x, gain, bias);
  check_matrix(n, x.rows(), x.columns(), "n", type);
  check_device({&n, &stats, &x, &gain, &bias});
  const OpScope running = scope("apply");
  do_apply(n, stats, x, gain, bias);
}

void Norm::backward(const Tensor& dx, const Tensor& n, const Tensor& d_gain, const Tensor& d_bias, const Tensor& dn,
                    const Tensor& x, const Tensor& stats, const Tensor& gain, const Tensor& bias, const Tensor& residual,
                    bool accumulate) {
  const DType type = check_inputs(stats, x, gain, bias);
  check_matrix(dx, x.rows(), x.columns(), "dx", type);
  check_matrix(dn, x.rows(), x.columns(), "dn", type);
  check_optional_matrix(n, x.rows(), x.columns(), "n", type);
  check_optional_matrix(residual, x.rows(), x.columns(), "residual", type);
  check_dense(d_gain, x.columns(), "d_gain");
  check_optional_dense(d_bias, x.columns(), "d_bias");
  check_device({&dx, &n, &d_gain, &d_bias, &dn, &x, &stats, &gain, &bias, &residual});
  const OpScope running = scope("backward");
  do_backward(dx, n, d_gain, d_bias, dn, x, stats, gain, bias, residual, accumulate);
}

}  // namespace lockstep::ops
