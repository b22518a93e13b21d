#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

class LossReference final : public Loss {
 public:
  using Loss::Loss;

 private:
  void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                  const Tensor& loss_sum) override {
    for (std::int64_t i = 0; i < logits.rows(); ++i) {
      const std::int64_t target = id_at(targets, i);
      double largest = at(logits, i, 0), sum = 0;
      for (std::int64_t j = 0; j < vocabulary; ++j) largest = std::max<double>(largest, at(logits, i, j));
      for (std::int64_t j = 0; j < vocabulary; ++j) sum += std::exp(at(logits, i, j) - largest);
      const double lse = largest + std::log(sum);
      if (target >= 0) double_at(loss_sum, 0) += lse - at(logits, i, target);
      if (!scale) continue;
      for (std::int64_t j = 0; j < logits.columns(); ++j) {
        double gradient = 0;
        if (target >= 0 && j < vocabulary) gradient = (std::exp(at(logits, i, j) - lse) - (j == target ? 1 : 0)) * at(scale, 0);
        at(logits, i, j) = static_cast<float>(gradient);
      }
    }
  }

  void do_summarise(const Tensor& summary, const Tensor& logits, const Tensor& targets, const VocabularyPart& part,
                    bool keep_exponentials) override {
    for (std::int64_t i = 0; i < logits.rows(); ++i) {
      const std::int64_t target = id_at(targets, i), column = target - part.first_token;
      double largest = -std::numeric_limits<double>::infinity(), sum = 0, logit = 0;
      for (std::int64_t j = 0; j < part.tokens; ++j) largest = std::max<double>(largest, at(logits, i, j));
      for (std::int64_t j = 0; j < part.tokens; ++j) sum += std::exp(at(logits, i, j) - largest);
      if (column >= 0 && column < part.tokens) logit = at(logits, i, column);
      const bool counts = target >= 0;
      double_at(summary, 3 * i) = counts ? largest : 0;
      double_at(summary, 3 * i + 1) = counts ? sum : 0;
      double_at(summary, 3 * i + 2) = counts ? logit : 0;
      if (!keep_exponentials || !counts) continue;
      for (std::int64_t j = 0; j < part.tokens; ++j) {
        at(logits, i, j) = static_cast<float>(std::exp(at(logits, i, j) - largest));
      }
    }
  }

  void do_finish(const Tensor& logits, const Tensor& targets, const VocabularyPart& part, const Tensor& summaries,
                 const Tensor& scale, const Tensor& loss_sum) override {
    const std::int64_t rows = logits.rows(), parts = rows > 0 ? summaries.elements() / (3 * rows) : 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto number = [&](std::int64_t p, std::int64_t column) { return double_at(summaries, 3 * (p * rows + i) + column); };
      const std::int64_t target = id_at(targets, i);
      double largest = number(0, 0), sum = 0, logit = 0;
      for (std::int64_t p = 0; p < parts; ++p) largest = std::max(largest, number(p, 0));
      for (std::int64_t p = 0; p < parts; ++p) sum += number(p, 1) * std::exp(number(p, 0) - largest);
      for (std::int64_t p = 0; p < parts; ++p) logit += number(p, 2);
      if (target >= 0 && loss_sum) double_at(loss_sum, 0) += largest + std::log(sum) - logit;
      if (!scale) continue;
      const double share = std::exp(number(part.number, 0) - largest) / sum;  // of the exponentials' unit in the probabilities
      for (std::int64_t j = 0; j < logits.columns(); ++j) {
        double gradient = 0;
        if (target >= 0 && j < part.tokens) {
          gradient = (at(logits, i, j) * share - (part.first_token + j == target ? 1 : 0)) * at(scale, 0);
        }
        at(logits, i, j) = static_cast<float>(gradient);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Loss> make_loss(OpObserver* observer) { return std::make_unique<LossReference>(observer); }

}  // namespace lockstep::ops::reference
