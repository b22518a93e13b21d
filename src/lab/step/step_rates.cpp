#include "lab/step/step_rates.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "lab/machine.h"
#include "lab/step/op_account.h"
#include "lab/step/step_training.h"
#include "ops/open_ops.h"
#include "planner/block_work.h"

namespace lockstep::lab {
namespace {

constexpr std::array<StepShape, 3> probe_models{
    {{.name = "narrow", .layers = 2, .heads = 4, .width = 128, .vocabulary = 64, .samples = 6, .positions = 64},
     {.name = "wide", .layers = 1, .heads = 6, .width = 384, .vocabulary = 64, .samples = 6, .positions = 64},
     {.name = "long", .layers = 1, .heads = 6, .width = 384, .vocabulary = 64, .samples = 1, .positions = 512}}};

/// The terms of each sum of a layer's product.
double depth_of(const ProductTime& product) {
  if (product.role == ProductRole::forward) return static_cast<double>(product.k);
  return static_cast<double>(product.role == ProductRole::input_gradient ? product.n : product.m);
}

double flops_of(const ProductTime& product) {
  return 2.0 * static_cast<double>(product.calls) * static_cast<double>(product.m) * static_cast<double>(product.n) *
         static_cast<double>(product.k);
}

/// FLOPs of attention's products forward and backward, as planner/block_work counts them.
double attention_flops(const StepShape& shape) {
  const std::int64_t head_size = shape.width / shape.heads;
  const planner::TiledAttention flops =
      planner::tiled_attention(shape.samples * shape.heads, shape.positions, shape.positions, head_size, shape.positions);
  return static_cast<double>(shape.layers) * (flops.forward + flops.backward);
}

/// The time of products, t = sum of flops (a + b / depth): `a` is for additions, `b` for each sum besides. The fit is the least
/// squares of t / flops, weighted by FLOPs, with b >= 0 and a >= `least`. Times are in multiply-adds that could have been made
/// meanwhile. A machine that other programs load gives pairs of times that no machine could have.
class ProductFit {
 public:
  explicit ProductFit(double least) : least_(least) {}
  void add(const ProductTime& product, double rate) {
    const double flops = flops_of(product), inverse = 1 / depth_of(product), time = product.seconds * rate;
    sum_ += flops;
    x_ += flops * inverse;
    xx_ += flops * inverse * inverse;
    y_ += time;
    xy_ += time * inverse;
  }
  double constant() const {
    const double spread = sum_ * xx_ - x_ * x_;
    const double slope = spread > 0 ? std::max(0.0, (sum_ * xy_ - x_ * y_) / spread) : 0;
    return std::max(least_, (y_ - slope * x_) / sum_);
  }
  double slope() const { return std::max(0.0, (xy_ - constant() * x_) / xx_); }

 private:
  double least_, sum_ = 0, x_ = 0, xx_ = 0, y_ = 0, xy_ = 0;
};

/// Kernels of one step. Other programs only ever make a step longer, and the rate of multiply-adds lower.
struct Kernels {
  std::vector<ProductTime> products;
  double product_seconds = std::numeric_limits<double>::infinity(), attention = 0;
  friend bool operator<(const Kernels& one, const Kernels& other) { return one.product_seconds < other.product_seconds; }
};

}  // namespace

StepRates measure_step_rates(Runtime& runtime, DType type, int steps) {
  const std::unique_ptr<Stream> stream = runtime.make_stream();
  const std::unique_ptr<comm::Communicator> alone = comm::make_self();
  const double times = type == DType::bf16 ? ops::bf16_multiply_adds() : 1;
  ProductFit fit(1 / times);
  double attention_work = 0, attention_room = 0;
  for (const StepShape& shape : probe_models) {
    OpAccount account;
    const std::unique_ptr<ops::Ops> ops = ops::make_ops(runtime, *stream, {.observer = &account});
    StepTraining training(shape, runtime, *ops, *alone, {data_parallel(1), {.type = type}});
    training.step();
    double rate = fma_peak(runtime.team());
    Kernels fastest;
    for (int i = 0; i < steps; ++i) {
      account.reset();
      training.step();
      fastest = std::min(fastest, Kernels{account.products(), account.seconds(Part::products), account.seconds(Part::attention)});
    }
    rate = std::max(rate, fma_peak(runtime.team()));
    for (const ProductTime& product : fastest.products) fit.add(product, rate);
    attention_work += attention_flops(shape);
    attention_room += fastest.attention * rate;
  }
  const double share = 1 / fit.constant();
  return {.product_share = share,
          .product_depth = fit.slope() / fit.constant(),
          .attention_share = std::min(1.0, attention_work / attention_room / share)};
}

}  // namespace lockstep::lab
