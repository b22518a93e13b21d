#include <algorithm>
#include <cmath>

#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

class ReduceReference final : public Reduce {
 public:
  using Reduce::Reduce;

 private:
  void do_sum_of_squares(const Tensor& sum, const Tensor& x) override {
    double& total = double_at(sum, 0) = 0;
    for (std::int64_t i = 0; i < x.elements(); ++i) total += static_cast<double>(get(x, i)) * get(x, i);
  }

  void do_exact_squares(const Tensor& digits, const Tensor& x) override {
    const std::span<std::int64_t> sums = elements<std::int64_t>(digits);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const double value = get(x, i), square = value * value;
      if (!std::isfinite(value)) {
        ++sums.back();
        continue;
      }
      // The square is a whole number below 2^53 times a power of two: its bits go to two or three digits.
      int exponent = 0;
      auto whole = static_cast<std::uint64_t>(std::ldexp(std::frexp(square, &exponent), 53));
      for (int bit = exponent - 53 + exact_bias; whole != 0;) {
        if (bit < 0) {  // these are zeros: a square has 48 bits
          whole >>= static_cast<unsigned>(-bit);
          bit = 0;
        }
        const int taken = 32 - bit % 32;
        sums[static_cast<std::size_t>(bit / 32)] +=
            static_cast<std::int64_t>((whole & ((std::uint64_t{1} << taken) - 1)) << (bit % 32));
        whole >>= static_cast<unsigned>(taken);
        bit += taken;
      }
    }
  }

  void do_max_abs(const Tensor& largest, const Tensor& x) override {
    double& result = double_at(largest, 0) = 0;
    for (std::int64_t i = 0; i < x.elements() && !std::isnan(result); ++i) {
      const double size = std::fabs(get(x, i));
      result = std::isnan(size) ? size : std::max(result, size);
    }
  }
};

}  // namespace

std::unique_ptr<Reduce> make_reduce(OpObserver* observer) { return std::make_unique<ReduceReference>(observer); }

}  // namespace lockstep::ops::reference
