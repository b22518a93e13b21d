#include "ops/split_norm.h"

#include "ops/check.h"

namespace lockstep::ops {
namespace {

/// The storage type of the call.
DType check_rows(const Tensor& x, const Tensor& rstd) {
  const DType type = storage_of(x, "x");
  check_matrix(x, x.rows(), x.columns(), "x", type);
  demand(x.columns() > 0, "x", "there are columns");
  check_dense(rstd, x.rows(), "rstd");
  return type;
}

}  // namespace

void SplitNorm::squares(const Tensor& sums, const Tensor& x) {
  check_rows(x, sums);
  check_device({&sums, &x});
  const OpScope running = scope("squares");
  do_squares(sums, x);
}

void SplitNorm::forward(const Tensor& n, const Tensor& rstd, const Tensor& x, const Tensor& gain, const Tensor& sums,
                        std::int64_t features, float eps) {
  const DType type = check_rows(x, rstd);
  check_matrix(n, x.rows(), x.columns(), "n", type);
  check_dense(gain, x.columns(), "gain", type);
  check_dense(sums, x.rows(), "sums");
  demand(features >= x.columns(), "x", "its features are among all");
  demand(eps > 0, "eps", "it is positive");
  check_device({&n, &rstd, &x, &gain, &sums});
  const OpScope running = scope("forward");
  do_forward(n, rstd, x, gain, sums, features, eps);
}

void SplitNorm::dots(const Tensor& sums, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain) {
  const DType type = check_rows(x, rstd);
  check_matrix(dn, x.rows(), x.columns(), "dn", type);
  check_dense(gain, x.columns(), "gain", type);
  check_dense(sums, x.rows(), "sums");
  check_device({&sums, &dn, &x, &rstd, &gain});
  const OpScope running = scope("dots");
  do_dots(sums, dn, x, rstd, gain);
}

void SplitNorm::gain_gradient(const Tensor& d_gain, const Tensor& dn, const Tensor& x, const Tensor& rstd, bool accumulate) {
  const DType type = check_rows(x, rstd);
  check_matrix(dn, x.rows(), x.columns(), "dn", type);
  check_dense(d_gain, x.columns(), "d_gain");
  check_device({&d_gain, &dn, &x, &rstd});
  const OpScope running = scope("gain_gradient");
  do_gain_gradient(d_gain, dn, x, rstd, accumulate);
}

void SplitNorm::backward(const Tensor& dx, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain,
                         const Tensor& dots, std::int64_t features) {
  const DType type = check_rows(x, rstd);
  check_matrix(dx, x.rows(), x.columns(), "dx", type);
  check_matrix(dn, x.rows(), x.columns(), "dn", type);
  check_dense(gain, x.columns(), "gain", type);
  check_optional_dense(dots, x.rows(), "dots");
  demand(features >= x.columns(), "x", "its features are among all");
  check_device({&dx, &dn, &x, &rstd, &gain, &dots});
  const OpScope running = scope("backward");
  do_backward(dx, dn, x, rstd, gain, dots, features);
}

}  // namespace lockstep::ops
