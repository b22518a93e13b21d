// Dropout: masks are drawn where they are used, a word an element.

#include "ops/cuda/device/each.cuh"
#include "ops/cuda/device/philox.cuh"

namespace lockstep::ops::cuda {
namespace {

template <class S>
struct Drop {
  Rows<S> y;
  Rows<const S> x, residual;  // residual may be null
  DropMask mask;
  Positions positions;
  std::int64_t first_sample, first_index;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    float value = load(x.at(i, j));
    if (mask.least > 0) {
      const std::int64_t sample = i / positions.count(), position = positions.at(i - sample * positions.count());
      if (!mask.keeps(first_sample + sample, position, first_index + j)) value = 0;
    }
    store(y.at(i, j), fmaf(value, mask.kept, residual.data != nullptr ? load(residual.at(i, j)) : 0.0F));
  }
};

class CudaDropout final : public Dropout {
 public:
  explicit CudaDropout(const Context& context) : Dropout(context.observer), context_(context) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, const DropoutSite& site, const Tensor& residual) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_matrix(context_, x.rows(), x.columns(),
                 Drop<S>{rows_of<S>(y), rows_of<const S>(x), rows_of<const S>(residual), mask_of(site), site.positions,
                         site.first_sample, site.first_index});
    });
  }

  void do_backward(const Tensor& dx, const Tensor& dy, const DropoutSite& site) override { do_forward(dx, dy, site, {}); }

  Context context_;
};

}  // namespace

std::unique_ptr<Dropout> make_dropout(const Context& context) { return std::make_unique<CudaDropout>(context); }

}  // namespace lockstep::ops::cuda
