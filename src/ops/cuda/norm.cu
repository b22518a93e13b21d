// Layer and RMS normalisation, half a warp a row.

#include <cmath>

#include "ops/cuda/device/lanes.cuh"
#include "ops/cuda/device/row_blocks.cuh"

namespace lockstep::ops::cuda {
namespace {

/// What the gain of column j multiplies by.
template <class S>
__device__ __forceinline__ float gain_at(const S* gain, std::int64_t j, NormForm form) {
  return form == NormForm::rms_unit_offset ? load(gain + j) + 1.0F : load(gain + j);
}

/// n from x, its mean and rstd.
template <class S>
struct Apply {
  Rows<S> n;
  Rows<const S> x, residual;  // residual may be null
  const S *gain, *bias;       // bias may be null
  float* stats;
  std::int64_t columns;
  NormForm form;
  __device__ void normalise(std::int64_t i, int lane, float mean, float rstd) const {
    for (std::int64_t j = lane; j < columns; j += lanes) {
      const float unit = (load(x.at(i, j)) - mean) * rstd;
      const float normed = fmaf(unit, gain_at(gain, j, form), bias != nullptr ? load(bias + j) : 0.0F);
      store(n.at(i, j), residual.data != nullptr ? normed + load(residual.at(i, j)) : normed);
    }
  }
  __device__ void operator()(std::int64_t i, int lane) const { normalise(i, lane, stats[2 * i], stats[2 * i + 1]); }
};

template <class S>
struct Forward {
  Apply<S> apply;
  float eps;
  __device__ void operator()(std::int64_t i, int lane) const {
    const std::int64_t columns = apply.columns;
    const auto count = static_cast<float>(columns);
    float sum = 0, squares = 0;
    for (std::int64_t j = lane; apply.form == NormForm::layer && j < columns; j += lanes) sum += load(apply.x.at(i, j));
    const float mean = lane_sum(sum) / count;
    for (std::int64_t j = lane; j < columns; j += lanes) {
      const float difference = load(apply.x.at(i, j)) - mean;
      squares = fmaf(difference, difference, squares);
    }
    const float rstd = 1 / sqrtf(lane_sum(squares) / count + eps);
    if (lane == 0) {
      apply.stats[2 * i] = mean;
      apply.stats[2 * i + 1] = rstd;
    }
    apply.normalise(i, lane, mean, rstd);
  }
};

template <class S>
struct Gains {
  static constexpr int sums = 2;
  Rows<const S> x, dn;
  const float* stats;
  __device__ void add(float (&sum)[2], std::int64_t i, std::int64_t j) const {
    const float unit = (load(x.at(i, j)) - stats[2 * i]) * stats[2 * i + 1], d_n = load(dn.at(i, j));
    sum[0] = fmaf(d_n, unit, sum[0]);
    sum[1] = d_n + sum[1];
  }
};

template <class S>
struct Backward {
  Rows<S> dx, n;                  // n may be null
  Rows<const S> dn, x, residual;  // residual may be null
  const S *gain, *bias;           // bias may be null
  const float* stats;
  std::int64_t columns;
  NormForm form;
  __device__ void operator()(std::int64_t i, int lane) const {
    const auto count = static_cast<float>(columns);
    const float mean = stats[2 * i], rstd = stats[2 * i + 1];
    float sum = 0, dot = 0;
    for (std::int64_t j = lane; j < columns; j += lanes) {
      const float d_unit = load(dn.at(i, j)) * gain_at(gain, j, form);
      sum += d_unit;
      dot = fmaf(d_unit, (load(x.at(i, j)) - mean) * rstd, dot);
    }
    const float all = lane_sum(sum), mean_sum = form == NormForm::layer ? all / count : 0.0F, mean_dot = lane_sum(dot) / count;
    for (std::int64_t j = lane; j < columns; j += lanes) {
      const float unit = (load(x.at(i, j)) - mean) * rstd, scale = gain_at(gain, j, form);
      const float d_x = fmaf(-unit, mean_dot, load(dn.at(i, j)) * scale - mean_sum);
      store(dx.at(i, j), fmaf(d_x, rstd, residual.data != nullptr ? load(residual.at(i, j)) : 0.0F));
      if (n.data != nullptr) store(n.at(i, j), fmaf(unit, scale, bias != nullptr ? load(bias + j) : 0.0F));
    }
  }
};

class CudaNorm final : public Norm {
 public:
  CudaNorm(const Context& context, NormForm form) : Norm(context.observer), context_(context), form_(form) {}

 private:
  template <class S>
  Apply<S> apply_of(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias,
                    const Tensor& residual) const {
    return {rows_of<S>(n),
            rows_of<const S>(x),
            rows_of<const S>(residual),
            data_of<const S>(gain),
            data_of<const S>(bias),
            data_of<float>(stats),
            x.columns(),
            form_};
  }

  void do_forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                  const Tensor& residual) override {
    with_storage(x.dtype, [&]<class S>(S) {
      for_rows(context_, x.rows(), Forward<S>{apply_of<S>(n, stats, x, gain, bias, residual), eps});
    });
  }

  void do_apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) override {
    with_storage(x.dtype, [&]<class S>(S) { for_rows(context_, x.rows(), apply_of<S>(n, stats, x, gain, bias, {})); });
  }

  // dn is read for the gains before dx, which may lie in its place, is written.
  void do_backward(const NormBackward& call) override {
    with_storage(call.x.dtype, [&]<class S>(S) {
      const std::int64_t columns = call.x.columns();
      const Gains<S> gains{rows_of<const S>(call.x), rows_of<const S>(call.dn), data_of<const float>(call.stats)};
      sum_over_rows(context_, {data_of<float>(call.d_gain), data_of<float>(call.d_bias)}, call.x.rows(), columns, gains,
                    call.accumulate);
      for_rows(context_, call.x.rows(),
               Backward<S>{rows_of<S>(call.dx), rows_of<S>(call.n), rows_of<const S>(call.dn), rows_of<const S>(call.x),
                           rows_of<const S>(call.residual), data_of<const S>(call.gain), data_of<const S>(call.bias),
                           data_of<const float>(call.stats), columns, form_});
    });
  }

  Context context_;
  NormForm form_;
};

}  // namespace

std::unique_ptr<Norm> make_norm(const Context& context, NormForm form) { return std::make_unique<CudaNorm>(context, form); }

}  // namespace lockstep::ops::cuda
