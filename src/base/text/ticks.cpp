#include "base/text/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace lockstep {
namespace {

constexpr double farthest = 1e300;  // differences of such values are finite, too

double power_of_ten(int exponent) { return std::pow(10.0, exponent); }

/// The labels of multiples of `step`, which is 1, 2 or 5 times 10 to the `exponent`.
struct Label {
  int exponent;
  double largest;
  std::string operator()(double value) const {
    static constexpr std::array units{"", "k", "M", "G", "T", "P", "E"};
    const int thousands = largest < 1e4 ? 0 : static_cast<int>(std::log10(largest) / 3);
    const int whole_decimals = std::max(0, -exponent), decimals = std::max(0, 3 * thousands - exponent);
    constexpr int most_decimals = 9, most_of_unit = 2;
    if (largest < 1e-3 || thousands >= static_cast<int>(units.size()) || whole_decimals > most_decimals)
      return fmt::format("{:.12g}", value);
    if (thousands == 0 || decimals > most_of_unit) return fmt::format("{:.{}f}", value, whole_decimals);
    if (value == 0) return "0";
    return fmt::format("{:.{}f}{}", value / power_of_ten(3 * thousands), decimals, units[static_cast<std::size_t>(thousands)]);
  }
};

}  // namespace

void Extent::include(double value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, std::clamp(value, -farthest, farthest));
  high = std::max(high, std::clamp(value, -farthest, farthest));
}

void Extent::settle() {
  if (low > high) low = high = 0;
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low > std::max(1e-12 * size, 1 / farthest)) return;
  const double half = size > 1 / farthest ? size / 10 : 1;
  low -= half;
  high += half;
}

std::vector<Tick> ticks_of(const Extent& extent, int most, bool whole) {
  const int smallest = static_cast<int>(std::floor(std::log10((extent.high - extent.low) / most)));
  for (int exponent = whole ? std::max(smallest, 0) : smallest;; ++exponent) {
    for (const int times : {1, 2, 5}) {
      const double step = times * power_of_ten(exponent), slack = 1e-9;  // a bound that is a multiple has its tick
      const double first = std::ceil(extent.low / step - slack), last = std::floor(extent.high / step + slack);
      if (last - first >= most) continue;
      const Label label{exponent, std::max(std::abs(first), std::abs(last)) * step};
      std::vector<Tick> ticks;
      for (int i = 0; i <= last - first; ++i) {
        const double value = (first + i) * step + 0.0;  // never "-0"
        ticks.push_back({value, label(value)});
      }
      return ticks;
    }
  }
}

}  // namespace lockstep
