#include <cmath>
#include <cstring>
#include <numbers>

#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

/// Element `index` of the standard normal sequence. Word 2j gives the radius, word 2j + 1 the angle. The even element has the
/// cosine, the odd one the sine. The radius' uniform number is (word / 2 + 1/2) / 2^31 rounded to float, as in fast code.
double normal_at(const CounterRng& rng, std::uint64_t index) {
  const std::uint32_t radius = rng.word(index & ~std::uint64_t{1}), turn = rng.word(index | 1);
  const float u = std::fma(static_cast<float>(radius >> 1), 0x1p-31F, 0x1p-32F);
  const double angle = 2 * std::numbers::pi * (turn * 0x1p-32);
  return std::sqrt(-2 * std::log(static_cast<double>(u))) * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

/// visit(i) for the elements of two dense tensors, visit(i, j) for those of two matrices.
template <class Visit>
void for_pairs(const Tensor& y, const Tensor& x, const Visit& visit) {
  if (x.dense() && y.dense()) {
    for (std::int64_t i = 0; i < x.elements(); ++i) visit(i);
    return;
  }
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    for (std::int64_t j = 0; j < x.columns(); ++j) visit(i, j);
  }
}

class ElementwiseReference final : public Elementwise {
 public:
  using Elementwise::Elementwise;

 private:
  void do_zero(const Tensor& x) override { std::memset(x.data, 0, x.bytes()); }

  void do_fill(const Tensor& x, float value) override {
    for (std::int64_t i = 0; i < x.elements(); ++i) put(x, i, value);
  }

  void do_cast(const Tensor& y, const Tensor& x) override {
    for_pairs(y, x, [&](auto... at) { put(y, at..., get(x, at...)); });
  }

  void do_split(const Tensor& high, const Tensor& low, const Tensor& x) override {
    for (std::int64_t i = 0; i < x.elements(); ++i) put_halves(high, low, i, at(x, i));
  }

  void do_join(const Tensor& x, const Tensor& high, const Tensor& low) override {
    for (std::int64_t i = 0; i < x.elements(); ++i) at(x, i) = joined(high, low, i);
  }

  void do_add(const Tensor& y, const Tensor& x) override {
    for_pairs(y, x, [&](auto... at) { put(y, at..., get(y, at...) + get(x, at...)); });
  }

  void do_finish_sums(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual) override {
    for (std::int64_t i = 0; i < sums.rows(); ++i) {
      for (std::int64_t j = 0; j < sums.columns(); ++j) {
        const double more = (bias ? get(bias, j) : 0) + (residual ? get(residual, i, j) : 0);
        put(y, i, j, get(sums, i, j) + more);
      }
    }
  }

  void do_scale(const Tensor& x, float factor) override {
    for (std::int64_t i = 0; i < x.elements(); ++i) put(x, i, get(x, i) * factor);
  }

  void do_soft_cap(const Tensor& x, const Tensor& tanhs, float cap) override {
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const double tanh = std::tanh(static_cast<double>(get(x, i)) / cap);
      if (tanhs) put(tanhs, i, tanh);
      put(x, i, cap * tanh);
    }
  }

  void do_soft_cap_backward(const Tensor& d, const Tensor& tanhs) override {
    for (std::int64_t i = 0; i < d.elements(); ++i) {
      const double tanh = get(tanhs, i);
      put(d, i, get(d, i) * (1 - tanh * tanh));
    }
  }

  void do_normal(const Tensor& x, const CounterRng& rng, std::int64_t first, float mean, float std) override {
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      put(x, i, mean + std * normal_at(rng, static_cast<std::uint64_t>(first + i)));
    }
  }

  void do_uniform(const Tensor& x, const CounterRng& rng, std::int64_t first, float low, float high) override {
    const double width = static_cast<double>(high) - low;
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      put(x, i, low + width * rng.uniform(static_cast<std::uint64_t>(first + i)));
    }
  }
};

}  // namespace

std::unique_ptr<Elementwise> make_elementwise(OpObserver* observer) { return std::make_unique<ElementwiseReference>(observer); }

}  // namespace lockstep::ops::reference
