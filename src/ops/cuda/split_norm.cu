// RMSNorm of rows whose features are summed in parts, half a warp a row.

#include "ops/cuda/device/lanes.cuh"
#include "ops/cuda/device/row_blocks.cuh"

namespace lockstep::ops::cuda {
namespace {

template <class S>
struct Squares {
  float* sums;
  Rows<const S> x;
  std::int64_t columns;
  __device__ void operator()(std::int64_t i, int lane) const {
    float squares = 0;
    for (std::int64_t j = lane; j < columns; j += lanes) squares = fmaf(load(x.at(i, j)), load(x.at(i, j)), squares);
    const float sum = lane_sum(squares);
    if (lane == 0) sums[i] = sum;
  }
};

template <class S>
struct Forward {
  Rows<S> n;
  Rows<const S> x;
  const S* gain;
  float* rstd;
  const float* sums;
  std::int64_t columns;
  float features, eps;
  __device__ void operator()(std::int64_t i, int lane) const {
    const float r = 1 / sqrtf(sums[i] / features + eps);
    if (lane == 0) rstd[i] = r;
    for (std::int64_t j = lane; j < columns; j += lanes) store(n.at(i, j), load(x.at(i, j)) * r * load(gain + j));
  }
};

template <class S>
struct Dots {
  float* sums;
  Rows<const S> dn, x;
  const S* gain;
  const float* rstd;
  std::int64_t columns;
  __device__ void operator()(std::int64_t i, int lane) const {
    float dot = 0;
    for (std::int64_t j = lane; j < columns; j += lanes) {
      dot = fmaf(load(dn.at(i, j)) * load(gain + j), load(x.at(i, j)) * rstd[i], dot);
    }
    const float sum = lane_sum(dot);
    if (lane == 0) sums[i] = sum;
  }
};

template <class S>
struct Gains {
  static constexpr int sums = 1;
  Rows<const S> x, dn;
  const float* rstd;
  __device__ void add(float (&sum)[1], std::int64_t i, std::int64_t j) const {
    sum[0] = fmaf(load(dn.at(i, j)), load(x.at(i, j)) * rstd[i], sum[0]);
  }
};

template <class S>
struct Backward {
  Rows<S> dx;
  Rows<const S> dn, x;
  const S* gain;
  const float *rstd, *dots;  // dots may be null
  std::int64_t columns;
  float features;
  __device__ void operator()(std::int64_t i, int lane) const {
    const float r = rstd[i], mean = dots != nullptr ? dots[i] / features : 0.0F;
    for (std::int64_t j = lane; j < columns; j += lanes) {
      const float unit = load(x.at(i, j)) * r;
      store(dx.at(i, j), fmaf(-unit, mean, load(dn.at(i, j)) * load(gain + j)) * r);
    }
  }
};

class CudaSplitNorm final : public SplitNorm {
 public:
  explicit CudaSplitNorm(const Context& context) : SplitNorm(context.observer), context_(context) {}

 private:
  void do_squares(const Tensor& sums, const Tensor& x) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_rows(context_, x.rows(), Squares<S>{data_of<float>(sums), rows_of<const S>(x), x.columns()});
    });
  }

  void do_forward(const Tensor& n, const Tensor& rstd, const Tensor& x, const Tensor& gain, const Tensor& sums,
                  std::int64_t features, float eps) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_rows(context_, x.rows(),
               Forward<S>{rows_of<S>(n), rows_of<const S>(x), data_of<const S>(gain), data_of<float>(rstd),
                          data_of<const float>(sums), x.columns(), static_cast<float>(features), eps});
    });
  }

  void do_dots(const Tensor& sums, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_rows(context_, x.rows(),
               Dots<S>{data_of<float>(sums), rows_of<const S>(dn), rows_of<const S>(x), data_of<const S>(gain),
                       data_of<const float>(rstd), x.columns()});
    });
  }

  void do_gain_gradient(const Tensor& d_gain, const Tensor& dn, const Tensor& x, const Tensor& rstd, bool accumulate) override {
    with_storage(x.dtype, [&]<class S>(S) {
      sum_over_rows(context_, {data_of<float>(d_gain)}, x.rows(), x.columns(),
                    Gains<S>{rows_of<const S>(x), rows_of<const S>(dn), data_of<const float>(rstd)}, accumulate);
    });
  }

  void do_backward(const Tensor& dx, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain,
                   const Tensor& dots, std::int64_t features) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_rows(context_, x.rows(),
               Backward<S>{rows_of<S>(dx), rows_of<const S>(dn), rows_of<const S>(x), data_of<const S>(gain),
                           data_of<const float>(rstd), data_of<const float>(dots), x.columns(), static_cast<float>(features)});
    });
  }

  Context context_;
};

}  // namespace

std::unique_ptr<SplitNorm> make_split_norm(const Context& context) { return std::make_unique<CudaSplitNorm>(context); }

}  // namespace lockstep::ops::cuda
