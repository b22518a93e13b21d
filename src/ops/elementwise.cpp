#include "ops/elementwise.h"

#include "ops/check.h"

namespace lockstep::ops {
namespace {

void check_floating(const Tensor& x, std::int64_t count, std::string_view name) {
  check_dense(x, count, name, storage_of(x, name));
}

// Two dense tensors of as many elements, or two matrices of one shape.
void check_pair(const Tensor& y, const Tensor& x, DType y_type) {
  const DType type = storage_of(x, "x");
  if (x.dense() && y.dense()) {
    check_dense(x, x.elements(), "x", type);
    check_dense(y, x.elements(), "y", y_type);
  } else {
    check_matrix(x, x.rows(), x.columns(), "x", type);
    check_matrix(y, x.rows(), x.columns(), "y", y_type);
  }
  check_device({&y, &x});
}

}  // namespace

void Elementwise::zero(const Tensor& x) {
  check_dense(x, x.elements(), "x", x.dtype);
  const OpScope running = scope("zero");
  do_zero(x);
}

void Elementwise::fill(const Tensor& x, float value) {
  check_floating(x, x.elements(), "x");
  const OpScope running = scope("fill");
  do_fill(x, value);
}

void Elementwise::cast(const Tensor& y, const Tensor& x) {
  check_pair(y, x, storage_of(y, "y"));
  const OpScope running = scope("cast");
  do_cast(y, x);
}

void Elementwise::split(const Tensor& high, const Tensor& low, const Tensor& x) {
  check_dense(x, x.elements(), "x");
  check_dense(high, x.elements(), "high", DType::bf16);
  check_optional_dense(low, x.elements(), "low", DType::u16);
  check_device({&high, &low, &x});
  const OpScope running = scope("split");
  do_split(high, low, x);
}

void Elementwise::join(const Tensor& x, const Tensor& high, const Tensor& low) {
  check_dense(x, x.elements(), "x");
  check_dense(high, x.elements(), "high", DType::bf16);
  check_dense(low, x.elements(), "low", DType::u16);
  check_device({&x, &high, &low});
  const OpScope running = scope("join");
  do_join(x, high, low);
}

void Elementwise::add(const Tensor& y, const Tensor& x) {
  check_pair(y, x, x.dtype);
  const OpScope running = scope("add");
  do_add(y, x);
}

void Elementwise::finish_sums(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual) {
  const DType type = storage_of(y, "y");
  check_matrix(sums, sums.rows(), sums.columns(), "sums");
  check_matrix(y, sums.rows(), sums.columns(), "y", type);
  check_optional_dense(bias, sums.columns(), "bias", type);
  check_optional_matrix(residual, sums.rows(), sums.columns(), "residual", type);
  check_device({&y, &sums, &bias, &residual});
  const OpScope running = scope("finish_sums");
  do_finish_sums(y, sums, bias, residual);
}

void Elementwise::scale(const Tensor& x, float factor) {
  check_floating(x, x.elements(), "x");
  const OpScope running = scope("scale");
  do_scale(x, factor);
}

void Elementwise::soft_cap(const Tensor& x, const Tensor& tanhs, float cap) {
  check_dense(x, x.elements(), "x");
  check_optional_dense(tanhs, x.elements(), "tanhs");
  check_device({&x, &tanhs});
  demand(cap > 0, "cap", "it is positive");
  const OpScope running = scope("soft_cap");
  do_soft_cap(x, tanhs, cap);
}

void Elementwise::soft_cap_backward(const Tensor& d, const Tensor& tanhs) {
  check_dense(d, d.elements(), "d");
  check_dense(tanhs, d.elements(), "tanhs");
  check_device({&d, &tanhs});
  const OpScope running = scope("soft_cap_backward");
  do_soft_cap_backward(d, tanhs);
}

void Elementwise::normal(const Tensor& x, const CounterRng& rng, std::int64_t first, float mean, float std) {
  check_floating(x, x.elements(), "x");
  demand(first >= 0, "normal", "the first element's number is not negative");
  demand(std >= 0, "normal", "the standard deviation is not negative");
  const OpScope running = scope("normal");
  do_normal(x, rng, first, mean, std);
}

void Elementwise::uniform(const Tensor& x, const CounterRng& rng, std::int64_t first, float low, float high) {
  check_floating(x, x.elements(), "x");
  demand(first >= 0, "uniform", "the first element's number is not negative");
  demand(low <= high, "uniform", "the range is not empty");
  const OpScope running = scope("uniform");
  do_uniform(x, rng, first, low, high);
}

}  // namespace lockstep::ops
