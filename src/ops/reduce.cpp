#include "ops/reduce.h"

#include "ops/check.h"

namespace lockstep::ops {

void Reduce::sum_of_squares(const Tensor& sum, const Tensor& x) {
  check_dense(x, x.elements(), "x", storage_of(x, "x"));
  check_dense(sum, 1, "sum", DType::f64);
  check_device({&sum, &x});
  const OpScope running = scope("sum_of_squares");
  do_sum_of_squares(sum, x);
}

void Reduce::max_abs(const Tensor& largest, const Tensor& x) {
  check_dense(x, x.elements(), "x", storage_of(x, "x"));
  check_dense(largest, 1, "largest", DType::f64);
  check_device({&largest, &x});
  const OpScope running = scope("max_abs");
  do_max_abs(largest, x);
}

}  // namespace lockstep::ops
