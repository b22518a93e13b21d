#pragma once

// Softmax cross-entropy on a chunk of logits, fused with its gradient. B tokens, V vocabulary.
//
// Ranks may divide the vocabulary into n parts, each of which makes its own columns of the logits. The logits never come
// together: `summarise()` and `finish()` take the place of `forward()`. The first sums a part's columns up to three numbers a
// row. The second makes the losses, and the gradient of the part's columns, from all parts' numbers. One part alone has the bits
// of `forward()`.

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
  /// For each row `loss_i = log sum exp(logits_i) - logits_i[target_i]`. A target of -1 in `targets` [B] i32 is ignored: its loss
  /// and gradient are 0. The rows' losses are added to `loss_sum` [1] f64 in fixed blocks of 64 rows in order. Columns of logits
  /// from `vocabulary` on are padding: they count as minus infinity and have gradient 0. When `scale` is not empty, the logits
  /// become their gradient, `(softmax - onehot) * scale`. The op reads `scale` [1] f32, one over the step's global number of
  /// targets. When it is empty, the logits stay.
  void forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale, const Tensor& loss_sum);

  /// Numbers of a row's summary.
  static constexpr std::int64_t summary_columns = 3;
  /// summary [B, 3] f64 = each row's largest logit, sum of exp(logit - largest), and target's logit. The last is 0 where another
  /// part has the target. A row whose target is ignored is zeros. A part without tokens gives minus infinity, 0, 0. A gradient
  /// needs `keep_exponentials`: then the logits of rows that count become exp(logit - largest). Otherwise the logits stay.
  void summarise(const Tensor& summary, const Tensor& logits, const Tensor& targets, const VocabularyPart& part,
                 bool keep_exponentials);
  /// Does for one part what forward() does. `summaries` [n * B, 3] f64 has the summaries of parts 0 to n - 1, which are added in
  /// this order. Every part adds the same to `loss_sum`, which may be empty. With `scale` the logits, as summarise() left them,
  /// become the gradient of the part's columns.
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
