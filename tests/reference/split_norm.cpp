#include <cmath>

#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

class SplitNormReference final : public SplitNorm {
 public:
  using SplitNorm::SplitNorm;

 private:
  static double unit(const Tensor& x, const Tensor& rstd, std::int64_t i, std::int64_t j) {
    return static_cast<double>(get(x, i, j)) * at(rstd, i);
  }

  /// to[i] = the sum of term(i, j) over the columns.
  template <class Term>
  static void sum_rows(const Tensor& to, const Tensor& x, const Term& term) {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < x.columns(); ++j) sum += term(i, j);
      at(to, i) = static_cast<float>(sum);
    }
  }

  void do_squares(const Tensor& sums, const Tensor& x) override {
    sum_rows(sums, x, [&](std::int64_t i, std::int64_t j) { return static_cast<double>(get(x, i, j)) * get(x, i, j); });
  }

  void do_forward(const Tensor& n, const Tensor& rstd, const Tensor& x, const Tensor& gain, const Tensor& sums,
                  std::int64_t features, float eps) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      at(rstd, i) = static_cast<float>(1 / std::sqrt(at(sums, i) / static_cast<double>(features) + eps));
      for (std::int64_t j = 0; j < x.columns(); ++j) put(n, i, j, unit(x, rstd, i, j) * get(gain, j));
    }
  }

  void do_dots(const Tensor& sums, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain) override {
    sum_rows(sums, x, [&](std::int64_t i, std::int64_t j) {
      return static_cast<double>(get(dn, i, j)) * get(gain, j) * unit(x, rstd, i, j);
    });
  }

  void do_gain_gradient(const Tensor& d_gain, const Tensor& dn, const Tensor& x, const Tensor& rstd, bool accumulate) override {
    for (std::int64_t j = 0; j < x.columns(); ++j) {
      double sum = accumulate ? at(d_gain, j) : 0;
      for (std::int64_t i = 0; i < x.rows(); ++i) sum += get(dn, i, j) * unit(x, rstd, i, j);
      at(d_gain, j) = static_cast<float>(sum);
    }
  }

  void do_backward(const Tensor& dx, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain,
                   const Tensor& dots, std::int64_t features) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      const double mean = dots ? at(dots, i) / static_cast<double>(features) : 0;
      for (std::int64_t j = 0; j < x.columns(); ++j) {
        const double d_unit = static_cast<double>(get(dn, i, j)) * get(gain, j);
        put(dx, i, j, at(rstd, i) * (d_unit - unit(x, rstd, i, j) * mean));
      }
    }
  }
};

}  // namespace

std::unique_ptr<SplitNorm> make_split_norm(OpObserver* observer) { return std::make_unique<SplitNormReference>(observer); }

}  // namespace lockstep::ops::reference
