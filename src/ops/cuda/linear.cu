// The layers' products.

#include "ops/cuda/device/row_blocks.cuh"
#include "ops/cuda/device/sum_tree.cuh"
#include "ops/cuda/product/product.h"

namespace lockstep::ops::cuda {
namespace {

/// What rows of dy add up to.
struct BiasRows {
  static constexpr int sums = 1;
  StoredRows dy;
  __device__ void add(float (&sum)[1], std::int64_t i, std::int64_t j) const { sum[0] += dy.get(i, j); }
};

/// The same by the ranges of a grid, a thread a column.
struct BiasRanges {
  float* sums;
  StoredRows dy;
  bool accumulate;
  GridRuns grid;
  __device__ void operator()(std::int64_t j) const {
    SumTree<1> tree;
    float total[1] = {};
    int next = 0;
    for (int range = 0; range < grid.ranges; ++range) {
      total[0] = 0;
      for (; next < grid.ends[range]; ++next) add_run(grid.runs[next], j, total[0]);
      tree.put(range, total);
    }
    sums[j] = accumulate ? sums[j] + total[0] : total[0];
  }
  __device__ void add_run(const GridRuns::Run& run, std::int64_t j, float& total) const {
    const std::int64_t end = std::int64_t{run.first} + run.count;
    for (std::int64_t block = run.first; block < end; block += block_rows) {
      float sum = 0;
      for (std::int64_t i = block; i < block + block_rows && i < end; ++i) sum += dy.get(i, j);
      total += sum;
    }
  }
};

class CudaLinear final : public Linear {
 public:
  explicit CudaLinear(const Context& context) : Linear(context.observer), context_(context) {}

 private:
  void do_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue) override {
    const Finish finish{.activation = epilogue.activation,
                        .y = stored_rows(y),
                        .pre_activation = stored_rows(epilogue.pre_activation),
                        .gate = stored_rows(epilogue.gate),
                        .bias = stored_rows(epilogue.bias),
                        .residual = stored_rows(epilogue.residual)};
    multiply(context_,
             {.m = x.rows(),
              .n = y.columns(),
              .k = x.columns(),
              .a = Operand::rows(x),
              .b = Operand::rows(w),
              .finish = finish,
              .onto = rows_of<const float>(epilogue.sums)},
             epilogue.grid);
  }

  void do_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue) override {
    const Finish finish{.input = static_cast<bool>(epilogue.pre_activation),
                        .activation = epilogue.activation,
                        .y = stored_rows(dx),
                        .pre_activation = stored_rows(epilogue.pre_activation),
                        .gate = stored_rows(epilogue.gate),
                        .d_gate = stored_rows(epilogue.d_gate),
                        .activated = stored_rows(epilogue.activated)};
    multiply(context_,
             {.m = dy.rows(),
              .n = dx.columns(),
              .k = dy.columns(),
              .a = Operand::rows(dy),
              .b = Operand::columns(w),
              .finish = finish,
              .onto = rows_of<const float>(epilogue.sums)},
             epilogue.grid);
  }

  void do_backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate,
                          const SumGrid* grid) override {
    if (x.rows() == 0 && accumulate) return;
    multiply(context_,
             {.m = dw.rows(),
              .n = dw.columns(),
              .k = x.rows(),
              .a = Operand::columns(dy),
              .b = Operand::columns(x),
              .finish = {.y = stored_rows(dw)},
              .onto = accumulate ? rows_of<const float>(dw) : Rows<const float>{},
              .over_tokens = true},
             grid);
    if (!db) return;
    if (grid != nullptr) {
      for_elements(context_, db.elements(), BiasRanges{data_of<float>(db), stored_rows(dy), accumulate, runs_of(*grid)});
    } else {
      sum_over_rows(context_, {data_of<float>(db)}, x.rows(), db.elements(), BiasRows{stored_rows(dy)}, accumulate);
    }
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Linear> make_linear(const Context& context) { return std::make_unique<CudaLinear>(context); }

}  // namespace lockstep::ops::cuda
