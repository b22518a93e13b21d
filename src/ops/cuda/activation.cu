// Activations on their own.

#include "ops/cuda/device/each.cuh"
#include "ops/cuda/device/math.cuh"

namespace lockstep::ops::cuda {
namespace {

/// f(x) and f'(x); of ReLU a zero is +0, as the CPU's has it here.
__device__ __forceinline__ Slope value_of(Activation f, float x) {
  if (f == Activation::relu) return {x > 0 ? x : 0.0F, x > 0 ? 1.0F : 0.0F};
  return activate_slope(f, x);
}

template <class S>
struct Forward {
  Rows<S> y;
  Rows<const S> x;
  Activation f;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    const float value = load(x.at(i, j));
    store(y.at(i, j), f == Activation::relu ? value_of(f, value).value : activate(f, value));
  }
};

template <class S>
struct Backward {
  Rows<S> dx, y;  // y may be null
  Rows<const S> dy, x;
  Activation f;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    const Slope at = value_of(f, load(x.at(i, j)));
    store(dx.at(i, j), load(dy.at(i, j)) * at.slope);
    if (y.data != nullptr) store(y.at(i, j), at.value);
  }
};

class CudaActivations final : public Activations {
 public:
  explicit CudaActivations(const Context& context) : Activations(context.observer), context_(context) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, Activation f) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_matrix(context_, x.rows(), x.columns(), Forward<S>{rows_of<S>(y), rows_of<const S>(x), f});
    });
  }

  void do_backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_matrix(context_, x.rows(), x.columns(),
                 Backward<S>{rows_of<S>(dx), rows_of<S>(y), rows_of<const S>(dy), rows_of<const S>(x), f});
    });
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Activations> make_activation(const Context& context) { return std::make_unique<CudaActivations>(context); }

}  // namespace lockstep::ops::cuda
