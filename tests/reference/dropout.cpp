#include "reference/dropout.h"

#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

class DropoutReference final : public Dropout {
 public:
  using Dropout::Dropout;

 private:
  void do_forward(const Tensor& y, const Tensor& x, const DropoutSite& site, const Tensor& residual) override {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (std::int64_t j = 0; j < x.columns(); ++j) {
        const double kept = static_cast<double>(get(x, i, j)) * factor(site, i, j);
        put(y, i, j, kept + (residual ? get(residual, i, j) : 0));
      }
    }
  }

  void do_backward(const Tensor& dx, const Tensor& dy, const DropoutSite& site) override { do_forward(dx, dy, site, {}); }

  static float factor(const DropoutSite& site, std::int64_t row, std::int64_t column) {
    if (site.p == 0) return 1;
    const std::int64_t rows = site.positions.count();
    return dropout_factor(site, row / rows, site.positions.at(row % rows), column);
  }
};

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, const std::uint32_t (&key)[2]) {
  std::uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

float dropout_factor(const DropoutSite& site, std::int64_t sample, std::int64_t position, std::int64_t index) {
  if (site.p == 0) return 1;
  index += site.first_index;
  const auto number = static_cast<std::uint64_t>(site.first_sample + sample);
  const auto words = philox({static_cast<std::uint32_t>(index / 4), static_cast<std::uint32_t>(position),
                             static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)},
                            site.key);
  const bool kept = words[static_cast<std::size_t>(index % 4)] >= static_cast<double>(site.p) * 4294967296.0;
  return kept ? 1 / (1 - site.p) : 0;
}

std::unique_ptr<Dropout> make_dropout(OpObserver* observer) { return std::make_unique<DropoutReference>(observer); }

}  // namespace lockstep::ops::reference
