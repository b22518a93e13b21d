#include "reference/access.h"
#include "reference/families.h"

namespace lockstep::ops::reference {
namespace {

class RotaryReference final : public Rotary {
 public:
  using Rotary::Rotary;

 private:
  void do_rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place) override {
    const std::int64_t size = angles.columns(), half = size / 2;
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      const std::int64_t position = place_of(place.positions, place.starts, i);
      for (std::int64_t head = 0; head < x.columns(); head += size) {
        for (std::int64_t j = 0; j < half; ++j) {
          const double cosine = at(angles, position, j);
          const double sine = place.inverse ? -at(angles, position, half + j) : at(angles, position, half + j);
          const double a = get(x, i, head + j), b = get(x, i, head + half + j);
          put(x, i, head + j, a * cosine - b * sine);
          put(x, i, head + half + j, b * cosine + a * sine);
        }
      }
    }
  }
};

}  // namespace

std::unique_ptr<Rotary> make_rotary(OpObserver* observer) { return std::make_unique<RotaryReference>(observer); }

}  // namespace lockstep::ops::reference
