#include "ops/cpu/linear.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/check.h"
#include "ops/cpu/context.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/product/tiles.h"

namespace lockstep::ops::cpu {
namespace {

static_assert(tile_columns == Tensor::tile_rows);

// Gradients of weights from this size on are not in a cache any more when the step ends.
constexpr std::size_t streamed_bytes = std::size_t{1} << 20;

float* floats_of(const Tensor& tensor) { return reinterpret_cast<float*>(tensor.data); }

Rows rows_of(const Tensor& tensor) { return tensor ? Rows{tensor.data, tensor.stride()} : Rows{}; }

class CpuLinear final : public Linear {
 public:
  CpuLinear(const LinearProducts& products, Stream& stream, OpObserver* observer)
      : Linear(observer),
        product_(products.ours),
        library_(products.library),
        plain_(products.plain),
        grids_(products.grids),
        apart_(products.apart),
        stream_(stream),
        kernels_(epilogue_kernels_for(product_.isa())) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue) override {
    ProductTask task = product_of(x, w, true, y);
    if (w.order == Order::tiles) task.b_tiled = w.rows() / tile_columns * tile_columns;
    const ForwardContext context{rows_of(y), rows_of(epilogue.pre_activation), rows_of(epilogue.gate), rows_of(epilogue.residual),
                                 rows_of(epilogue.bias)};
    const bool plain = epilogue.activation == Activation::none && !epilogue.bias && !epilogue.pre_activation && !epilogue.gate &&
                       !epilogue.residual;
    if (!plain || y.dtype != DType::f32)
      task.finish = {.apply = kernels_.of(y.dtype).forward[static_cast<std::size_t>(epilogue.activation)],
                     .context = &context,
                     .operands = {context.y, context.pre_activation, context.gate, context.residual},
                     .type = y.dtype};
    go_on(task, epilogue.sums);
    run(task, epilogue.grid);
  }

  bool packs() const override { return library_ == nullptr && plain_ == nullptr; }

  bool do_prepack(const Tensor& w, const Tensor& to) override {
    return product_.store_in_tiles(w.data, to.data, w.dtype, w.rows(), w.columns()) > 0;
  }

  void do_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue) override {
    ProductTask task = product_of(dy, w, false, dx);
    const Epilogues& kernels = kernels_.of(dx.dtype);
    const InputContext context{rows_of(dx),
                               rows_of(epilogue.pre_activation),
                               rows_of(epilogue.gate),
                               rows_of(epilogue.d_gate),
                               rows_of(epilogue.activated),
                               streams(dx) && (!epilogue.d_gate || streams(epilogue.d_gate))};
    const ForwardContext store{rows_of(dx), {}, {}, {}, {}};
    if (epilogue.pre_activation) {
      task.finish = {.apply = kernels.input[static_cast<std::size_t>(epilogue.activation)],
                     .context = &context,
                     .operands = {context.dx, context.pre_activation, context.gate, context.d_gate, context.activated},
                     .type = dx.dtype};
    } else if (dx.dtype != DType::f32) {
      task.finish = {.apply = kernels.forward[static_cast<std::size_t>(Activation::none)],
                     .context = &store,
                     .operands = {store.y},
                     .type = dx.dtype};
    }
    go_on(task, epilogue.sums);
    run(task, epilogue.grid);
  }

  void do_backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate,
                          const SumGrid* grid) override {
    if (x.rows() == 0) {
      if (accumulate) return;
      for (std::int64_t row = 0; row < dw.rows(); ++row) std::fill_n(floats_of(dw) + row * dw.stride(), dw.columns(), 0.0F);
      if (db) std::fill_n(floats_of(db), db.elements(), 0.0F);
      return;
    }
    run({.m = dw.rows(),
         .n = dw.columns(),
         .k = x.rows(),
         .a = dy.data,
         .a_stride = dy.stride(),
         .a_transposed = true,
         .a_type = dy.dtype,
         .b = x.data,
         .b_stride = x.stride(),
         .b_transposed = false,
         .b_type = x.dtype,
         .c = floats_of(dw),
         .c_stride = dw.stride(),
         .accumulate = accumulate,
         .stream = !accumulate && dw.bytes() >= streamed_bytes,
         .sums = floats_of(db),
         .sum_rows = kernels_.of(dy.dtype).sum_rows},
        grid);
  }

  // What is made of a gradient behind an activation is read by weight gradients next.
  bool streams(const Tensor& gradient) const { return stored_past_caches(product_.team(), gradient); }

  // Blocks are added onto `sums`, which are C itself where nothing is to be finished.
  static void go_on(ProductTask& task, const Tensor& sums) {
    if (!sums) return;
    task.accumulate = task.finish.apply == nullptr;
    if (task.accumulate) return;
    task.onto = floats_of(sums);
    task.onto_stride = sums.stride();
  }

  // C = A B without an epilogue; a finish stores what is not f32.
  static ProductTask product_of(const Tensor& a, const Tensor& b, bool b_transposed, const Tensor& c) {
    return {.m = a.rows(),
            .n = c.columns(),
            .k = a.columns(),
            .a = a.data,
            .a_stride = a.stride(),
            .a_transposed = false,
            .a_type = a.dtype,
            .b = b.data,
            .b_stride = b.stride(),
            .b_transposed = b_transposed,
            .b_type = b.dtype,
            .c = floats_of(c),
            .c_stride = c.stride()};
  }

  void run(const ProductTask& task, const SumGrid* grid) {
    if (task.m > 0 && task.n > 0) apart_ == nullptr ? multiply(task, grid) : run_apart(task, grid);
    stream_.progress();
  }

  void multiply(const ProductTask& task, const SumGrid* grid) {
    if (grid != nullptr) {
      demand(grids_ != nullptr && grids_->taken(), "grid", "these kernels have taken what sums by ranges need");
      grids_->run(task, *grid);
    } else if (library_ != nullptr) {
      library_->run(task);
    } else {
      plain_ != nullptr ? plain_->run(task) : product_.run(task);
    }
  }

  // Sums by ranges take A's sums along, which have their order.
  void run_apart(ProductTask task, const SumGrid* grid) {
    if (task.sums != nullptr && grid == nullptr) {
      sum_rows(task, product_.team());
      task.sums = nullptr;
    }
    if (task.finish.apply == nullptr || !FinishApart::fits(task)) return multiply(task, grid);
    apart_->run(task, [this, grid](const ProductTask& part) { multiply(part, grid); });
  }

  Product& product_;
  LibraryProducts* library_;
  PlainProducts* plain_;
  GridProduct* grids_;
  FinishApart* apart_;
  Stream& stream_;
  EpilogueKernels kernels_;
};

}  // namespace

std::unique_ptr<Linear> make_linear(const LinearProducts& products, Stream& stream, OpObserver* observer) {
  return std::make_unique<CpuLinear>(products, stream, observer);
}

}  // namespace lockstep::ops::cpu
