#include "ops/loss.h"

#include "ops/check.h"

namespace lockstep::ops {

void Loss::forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                   const Tensor& loss_sum) {
  check_matrix(logits, logits.rows(), logits.columns(), "logits");
  check_dense(targets, logits.rows(), "targets", DType::i32);
  check_optional_dense(scale, 1, "scale");
  demand(vocabulary > 0 && vocabulary <= logits.columns(), "logits", "there is a column for every token id");
  check_dense(loss_sum, 1, "loss_sum", DType::f64);
  check_device({&logits, &targets, &scale, &loss_sum});
  const OpScope running = scope("forward");
  do_forward(logits, targets, vocabulary, scale, loss_sum);
}

}  // namespace lockstep::ops
