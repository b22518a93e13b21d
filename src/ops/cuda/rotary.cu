// Rotary positions, in place: one product and one fused multiply-add an element, as on the CPU.

#include "ops/cuda/device/each.cuh"

namespace lockstep::ops::cuda {
namespace {

/// Column j stands for pair j % half of head j / half.
template <class S>
struct Rotate {
  Rows<S> x;
  Rows<const float> angles;
  Places places;
  std::int64_t half;
  bool inverse;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    const std::int64_t head = j / half, pair = j - head * half;
    S* const low = x.at(i, 2 * head * half + pair);
    S* const high = low + half;
    const float* const angle = angles.row(places.of(i)) + pair;
    const float a = load(low), b = load(high), cosine = angle[0], sine = inverse ? -angle[half] : angle[half];
    store(low, fmaf(-b, sine, a * cosine));
    store(high, fmaf(a, sine, b * cosine));
  }
};

class CudaRotary final : public Rotary {
 public:
  explicit CudaRotary(const Context& context) : Rotary(context.observer), context_(context) {}

 private:
  void do_rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_matrix(context_, x.rows(), x.columns() / 2,
                 Rotate<S>{rows_of<S>(x), rows_of<const float>(angles), places_of(place.positions, place.starts),
                           angles.columns() / 2, place.inverse});
    });
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Rotary> make_rotary(const Context& context) { return std::make_unique<CudaRotary>(context); }

}  // namespace lockstep::ops::cuda
