#include "ops/dropout.h"

#include "base/rng.h"
#include "ops/check.h"

namespace lockstep::ops {
namespace {

void check_site(const DropoutSite& site, const Tensor& x) {
  ops::check_site(site);
  if (site.p > 0) check_samples(x, site.positions, "x");
}

}  // namespace

void make_key(std::uint32_t (&key)[2], std::uint64_t seed, std::int64_t step, int layer, Site site) {
  // Philox itself mixes the address into a key: words 0 and 1 of block(step, 4 layer + site) of the sequence "dropout".
  const std::uint64_t place = 4 * static_cast<std::uint64_t>(layer) + static_cast<std::uint64_t>(site);
  const auto words = CounterRng(seed, "dropout").block(static_cast<std::uint64_t>(step), place);
  key[0] = words[0];
  key[1] = words[1];
}

void Dropout::forward(const Tensor& y, const Tensor& x, const DropoutSite& site, const Tensor& residual) {
  const DType type = storage_of(x, "x");
  check_matrix(x, x.rows(), x.columns(), "x", type);
  check_matrix(y, x.rows(), x.columns(), "y", type);
  check_optional_matrix(residual, x.rows(), x.columns(), "residual", type);
  check_site(site, x);
  check_device({&y, &x, &residual});
  const OpScope running = scope("forward");
  do_forward(y, x, site, residual);
}

void Dropout::backward(const Tensor& dx, const Tensor& dy, const DropoutSite& site) {
  const DType type = storage_of(dy, "dy");
  check_matrix(dy, dy.rows(), dy.columns(), "dy", type);
  check_matrix(dx, dy.rows(), dy.columns(), "dx", type);
  check_site(site, dy);
  check_device({&dx, &dy});
  const OpScope running = scope("backward");
  do_backward(dx, dy, site);
}

}  // namespace lockstep::ops
