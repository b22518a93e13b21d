#pragma once

// Softmax cross-entropy on a chunk of logits, fused with its gradient. B tokens, V vocabulary.
//
// Where the vocabulary is divided and each of its n parts makes its own columns of the logits, two ops take the place of one, and
// the logits never come together: each part sums its columns up to three numbers a row; once a part has those of all parts, it
// has the losses, and the gradient of its columns. With one part they have forward()'s bits.

#include "ops/op_scope.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

/// Part `number` of a divided vocabulary: column j of its logits is token first_token + j. Columns from `tokens` on are padding.
struct VocabularyPart {
  int number = 0;
  std::int64_t first_token = 0;
  std::int64_t tokens = 0;
};

class Loss : public Family {
 public:
  explicit Loss(OpObserver* observer) : Family("loss", observer) {}
  /// For each row: loss_i = log sum exp(logits_i) - logits_i[target_i]; targets [B] i32, -1 is ignored (loss 0, gradient 0).
  /// loss_sum [1] f64 += the losses of the rows, in fixed blocks of 64 rows in order. `vocabulary` <= columns of
  /// logits: columns from it on are padding and count as minus infinity (gradient 0).
  /// When `scale` is not empty ([1] f32, one over the step's global number of targets, read by the op), the logits become
  /// their gradient: (softmax - onehot) * scale. When empty they are left as they are.
  void forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale, const Tensor& loss_sum);

  /// Numbers of a row's summary.
  static constexpr std::int64_t summary_columns = 3;
  /// summary [B, 3] f64 = each row's largest logit, its sum of exp(logit - largest), and its target's logit, or 0 where another
  /// part has it; zeros where the target is ignored. A part may have no tokens: minus infinity, 0, 0. With `keep_exponentials`,
  /// which a gradient needs, the logits of rows that count become exp(logit - largest); otherwise they are left as they are.
  void summarise(const Tensor& summary, const Tensor& logits, const Tensor& targets, const VocabularyPart& part,
                 bool keep_exponentials);
  /// What forward() does, for one part: `summaries` [n * B, 3] f64 are those of parts 0 to n - 1, which are added in this order.
  /// loss_sum gets the same from every part, and may be empty. With `scale` the logits, as summarise() left them, become the
  /// gradient of the part's columns.
  void finish(const Tensor& logits, const Tensor& targets, const VocabularyPart& part, const Tensor& summaries,
              const Tensor& scale, const Tensor& loss_sum);

 private:
  virtual void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                          const Tensor& loss_sum) = 0;
  virtual void do_summarise(const Tensor& summary, const Tensor& logits, const Tensor& targets, const VocabularyPart& part,
                            bool keep_exponentials) = 0;
  virtual void do_finish(const Tensor& logits, const Tensor& targets, const VocabularyPart& part, const Tensor& summaries,
                         const Tensor& scale, const Tensor& loss_sum) = 0;
};

}  // namespace lockstep::ops
