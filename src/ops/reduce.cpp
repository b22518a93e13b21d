#include "ops/reduce.h"

#include "ops/check.h"

namespace lockstep::ops {

double Reduce::sum_of_squares(const Tensor& x) {
  check_dense(x, x.elements(), "x", storage_of(x, "x"));
  return do_sum_of_squares(x);
}

double Reduce::max_abs(const Tensor& x) {
  check_dense(x, x.elements(), "x", storage_of(x, "x"));
  return do_max_abs(x);
}

}  // namespace lockstep::ops
