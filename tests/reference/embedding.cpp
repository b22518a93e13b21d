#include <set>
#include <vector>

#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

class EmbeddingReference final : public Embedding {
 public:
  using Embedding::Embedding;

 private:
  void do_forward(const Tensor& y, const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                  const Positions& positions, std::int64_t first_token, const Tensor& starts) override {
    for (std::int64_t i = 0; i < y.rows(); ++i) {
      const std::int64_t row = id_at(tokens, i) - first_token;
      const bool here = row >= 0 && row < token_table.rows();
      for (std::int64_t j = 0; j < y.columns(); ++j) {
        const float position = position_table ? get(position_table, place_of(positions, starts, i), j) : 0;
        put(y, i, j, here ? get(token_table, row, j) + position : 0);
      }
    }
  }

  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token) override {
    const std::int64_t width = dy.columns();
    std::vector<double> sums(static_cast<std::size_t>(d_tokens.rows() * width));
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < dy.rows(); ++i) {
      const std::int64_t row = id_at(tokens, i) - first_token;
      if (row < 0 || row >= d_tokens.rows()) continue;
      seen.insert(row);
      for (std::int64_t j = 0; j < width; ++j) sums[static_cast<std::size_t>(row * width + j)] += get(dy, i, j);
    }
    for (const std::int64_t row : seen) {
      for (std::int64_t j = 0; j < width; ++j) {
        at(d_tokens, row, j) = static_cast<float>(at(d_tokens, row, j) + sums[static_cast<std::size_t>(row * width + j)]);
      }
    }
  }

  void do_backward_tokens(const Tensor& d_tokens, const Tensor& dy, const Tensor& tokens, std::int64_t first_token,
                          const SumGrid& /*grid*/, const Tensor& /*workspace*/) override {
    do_backward_tokens(d_tokens, dy, tokens, first_token);
  }

  void do_backward_positions(const Tensor& d_table, const Tensor& dy, const Positions& positions, bool accumulate,
                             const Tensor& starts) override {
    for (std::int64_t t = 0; t < d_table.rows(); ++t) {
      for (std::int64_t j = 0; j < dy.columns(); ++j) {
        double sum = accumulate ? at(d_table, t, j) : 0;
        for (std::int64_t i = 0; i < dy.rows(); ++i) {
          if (place_of(positions, starts, i) == t) sum += get(dy, i, j);
        }
        at(d_table, t, j) = static_cast<float>(sum);
      }
    }
  }

  void do_add_rows(const Tensor& sum, const Tensor& part, const Tensor& tokens) override {
    for (std::int64_t i = 0; i < tokens.elements(); ++i) {
      const std::int64_t id = id_at(tokens, i);
      for (std::int64_t j = 0; j < sum.columns(); ++j) {
        at(sum, id, j) += at(part, id, j);
        at(part, id, j) = 0;
      }
    }
  }

  void do_take_rows(const Tensor& rows, const Tensor& part, const Tensor& tokens) override {
    for (std::int64_t i = 0; i < tokens.elements(); ++i) {
      const std::int64_t id = id_at(tokens, i);
      for (std::int64_t j = 0; j < rows.columns(); ++j) {
        at(rows, i, j) = at(part, id, j);
        at(part, id, j) = 0;
      }
    }
  }
};

}  // namespace

std::unique_ptr<Embedding> make_embedding(OpObserver* observer) { return std::make_unique<EmbeddingReference>(observer); }

}  // namespace lockstep::ops::reference
