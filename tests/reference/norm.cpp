#include <cmath>
#include <vector>

#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

class NormReference final : public Norm {
 public:
  NormReference(NormForm form, OpObserver* observer)
      : Norm(observer), centred_(form == NormForm::layer), offset_(form == NormForm::rms_unit_offset ? 1 : 0) {}

 private:
  void do_forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                  const Tensor& residual) override {
    const std::int64_t columns = x.columns();
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      double sum = 0, squares = 0;
      for (std::int64_t j = 0; j < columns; ++j) sum += get(x, i, j);
      const double mean = centred_ ? sum / static_cast<double>(columns) : 0;
      for (std::int64_t j = 0; j < columns; ++j) squares += (get(x, i, j) - mean) * (get(x, i, j) - mean);
      at(stats, 2 * i) = static_cast<float>(mean);
      at(stats, 2 * i + 1) = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(columns) + eps));
    }
    affine(n, stats, x, gain, bias, residual);
  }

  void do_apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) override {
    affine(n, stats, x, gain, bias, {});
  }

  double gain_at(const Tensor& gain, std::int64_t j) const { return offset_ + get(gain, j); }

  void affine(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias,
              const Tensor& residual) const {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      const double mean = at(stats, 2 * i), rstd = at(stats, 2 * i + 1);
      for (std::int64_t j = 0; j < x.columns(); ++j) {
        const double value = (get(x, i, j) - mean) * rstd * gain_at(gain, j) + (bias ? get(bias, j) : 0);
        put(n, i, j, value + (residual ? get(residual, i, j) : 0));
      }
    }
  }

  void do_backward(const NormBackward& call) override {
    const auto& [dx, n, d_gain, d_bias, dn, x, stats, gain, bias, residual, accumulate] = call;
    if (n) do_apply(n, stats, x, gain, bias);
    if (d_gain) gains(d_gain, d_bias, dn, x, stats, accumulate);
    const std::int64_t columns = x.columns();
    std::vector<double> unit(static_cast<std::size_t>(columns)), d_unit(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      const double mean = at(stats, 2 * i), rstd = at(stats, 2 * i + 1);
      double sum = 0, dot = 0;
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto c = static_cast<std::size_t>(j);
        unit[c] = (get(x, i, j) - mean) * rstd;
        d_unit[c] = static_cast<double>(get(dn, i, j)) * gain_at(gain, j);
        sum += d_unit[c];
        dot += d_unit[c] * unit[c];
      }
      sum = centred_ ? sum / static_cast<double>(columns) : 0;
      dot /= static_cast<double>(columns);
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto c = static_cast<std::size_t>(j);
        const double value = rstd * (d_unit[c] - sum - unit[c] * dot);
        put(dx, i, j, value + (residual ? get(residual, i, j) : 0));
      }
    }
  }

  static void gains(const Tensor& d_gain, const Tensor& d_bias, const Tensor& dn, const Tensor& x, const Tensor& stats,
                    bool accumulate) {
    for (std::int64_t j = 0; j < x.columns(); ++j) {
      double gain = accumulate ? at(d_gain, j) : 0;
      double bias = accumulate && d_bias ? at(d_bias, j) : 0;
      for (std::int64_t i = 0; i < x.rows(); ++i) {
        const double unit = (get(x, i, j) - static_cast<double>(at(stats, 2 * i))) * at(stats, 2 * i + 1);
        gain += get(dn, i, j) * unit;
        bias += get(dn, i, j);
      }
      at(d_gain, j) = static_cast<float>(gain);
      if (d_bias) at(d_bias, j) = static_cast<float>(bias);
    }
  }

  bool centred_;
  double offset_;  // added to gains
};

}  // namespace

std::unique_ptr<Norm> make_norm(NormForm form, OpObserver* observer) { return std::make_unique<NormReference>(form, observer); }

}  // namespace lockstep::ops::reference
