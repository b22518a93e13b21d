#include "ops/loss.h"

#include "ops/check.h"

namespace lockstep::ops {
namespace {

void check_part(const Tensor& logits, const Tensor& targets, const VocabularyPart& part) {
  check_matrix(logits, logits.rows(), logits.columns(), "logits");
  check_dense(targets, logits.rows(), "targets", DType::i32);
  demand(part.first_token >= 0 && part.tokens >= 0, "part", "a part of the vocabulary is a range of it");
  demand(part.tokens <= logits.columns(), "logits", "there is a column for every token id");
}

}  // namespace

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

void Loss::summarise(const Tensor& summary, const Tensor& logits, const Tensor& targets, const VocabularyPart& part,
                     bool keep_exponentials) {
  check_part(logits, targets, part);
  check_dense(summary, logits.rows() * summary_columns, "summary", DType::f64);
  check_device({&summary, &logits, &targets});
  const OpScope running = scope("summarise");
  do_summarise(summary, logits, targets, part, keep_exponentials);
}

void Loss::finish(const Tensor& logits, const Tensor& targets, const VocabularyPart& part, const Tensor& summaries,
                  const Tensor& scale, const Tensor& loss_sum) {
  check_part(logits, targets, part);
  check_dense(summaries, summaries.elements(), "summaries", DType::f64);
  const std::int64_t own = logits.rows() * summary_columns;
  demand(own == 0 || summaries.elements() % own == 0, "summaries", "every part has as many rows");
  demand(part.number >= 0 && (part.number + 1) * own <= summaries.elements(), "summaries", "the part's own are among them");
  check_optional_dense(scale, 1, "scale");
  check_optional_dense(loss_sum, 1, "loss_sum", DType::f64);
  check_device({&logits, &targets, &summaries, &scale, &loss_sum});
  const OpScope running = scope("finish");
  do_finish(logits, targets, part, summaries, scale, loss_sum);
}

}  // namespace lockstep::ops
