// Softmax cross-entropy, a block a row: the maximum, the exponentials and their sum, the gradient. Where the vocabulary is
// divided, what one visit of a row does is done in two.

#include "ops/cuda/device/block.cuh"
#include "ops/cuda/device/lanes.cuh"
#include "ops/cuda/device/logarithm.cuh"
#include "ops/cuda/device/math.cuh"
#include "ops/cuda/device/storage.cuh"
#include "ops/cuda/native/tensor_core.cuh"

namespace lockstep::ops::cuda {
namespace {

constexpr unsigned loss_threads = 256;
constexpr int half_warps = loss_threads / lanes;
constexpr std::int64_t chunk = 1024;  // columns whose exponentials are added as floats
constexpr std::int64_t block_rows = 64;
constexpr float lowest = -std::numeric_limits<float>::infinity();

struct LossShared {
  float largest[most_warps];
  float sums[half_warps];
};

__device__ __forceinline__ float largest_of_row(LossShared& shared, const float* row, std::int64_t columns) {
  float largest = lowest;
  for (std::int64_t j = threadIdx.x; j < columns; j += loss_threads) largest = max_of(largest, row[j]);
  return across_block(largest, shared.largest, LargestOf());
}

/// The sum of exp(row - shift): half a warp a chunk, chunks in order in double. `keep`: the row becomes exp(row - shift).
__device__ __forceinline__ double sum_of_exponentials(LossShared& shared, float* row, std::int64_t columns, float shift,
                                                      bool keep) {
  const int lane = static_cast<int>(threadIdx.x % lanes), half = static_cast<int>(threadIdx.x / lanes);
  double total = 0;
  for (std::int64_t begin = 0; begin < columns; begin += half_warps * chunk) {
    const std::int64_t first = begin + half * chunk, last = first + chunk < columns ? first + chunk : columns;
    float sum = 0;
    for (std::int64_t j = first + lane; j < last; j += lanes) {
      const float e = exponential(row[j] - shift);
      sum += e;
      if (keep) row[j] = e;
    }
    sum = lane_sum(sum);
    __syncthreads();  // the sums before were added
    if (lane == 0) shared.sums[half] = sum;
    __syncthreads();
    for (int i = 0; i < half_warps && begin + i * chunk < columns; ++i) total += shared.sums[i];
  }
  return total;
}

/// The first `tokens` columns of a row *= factor, and `less` is taken from column `target`; those behind become zero.
__device__ __forceinline__ void scale_row(float* row, std::int64_t tokens, std::int64_t columns, float factor,
                                          std::int64_t target, float less) {
  for (std::int64_t j = threadIdx.x; j < columns; j += loss_threads) {
    const float value = j < tokens ? row[j] * factor : 0.0F;
    row[j] = j == target ? value - less : value;
  }
}

struct PartLogits {
  Rows<float> logits;
  const std::int32_t* targets;
  std::int64_t first_token, tokens, columns;  // token of column 0, columns that are tokens, all columns
};

/// What a part of the vocabulary says of a row, as it lies in a summary's row.
struct RowSummary {
  double largest, sum, logit;
};

/// losses [rows]; with `scale` the row becomes its gradient. A block has row `first` + its number.
__global__ void __launch_bounds__(loss_threads, 1)
    loss_kernel(PartLogits part, const float* scale, double* losses, std::int64_t first) {
  auto& shared = shared_memory<LossShared>();
  const std::int64_t i = first + blockIdx.x;
  float* const row = part.logits.row(i);
  const std::int64_t target = part.targets[i];
  if (target < 0) {
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if (scale != nullptr) scale_row(row, 0, part.columns, 0, -1, 0);
    return;
  }
  const double logit = row[target];
  const float largest = largest_of_row(shared, row, part.tokens);
  const double sum = sum_of_exponentials(shared, row, part.tokens, largest, scale != nullptr);
  if (scale != nullptr) scale_row(row, part.tokens, part.columns, static_cast<float>(*scale / sum), target, *scale);
  if (threadIdx.x == 0) losses[blockIdx.x] = logarithm(sum) + (largest - logit);
}

__global__ void __launch_bounds__(loss_threads, 1) summary_kernel(PartLogits part, RowSummary* summaries, bool keep) {
  auto& shared = shared_memory<LossShared>();
  const std::int64_t i = blockIdx.x, target = part.targets[i], column = target - part.first_token;
  float* const row = part.logits.row(i);
  RowSummary summary{};
  if (target >= 0) {
    if (column >= 0 && column < part.tokens) summary.logit = row[column];
    const float largest = largest_of_row(shared, row, part.tokens);
    summary.largest = largest;
    summary.sum = sum_of_exponentials(shared, row, part.tokens, largest, keep);
  }
  if (threadIdx.x == 0) summaries[i] = summary;
}

/// The summaries of all parts, `rows` of each.
struct AllSummaries {
  const RowSummary* of;
  std::int64_t parts, rows;
  int own;
};

__global__ void __launch_bounds__(loss_threads, 1)
    finish_kernel(PartLogits part, AllSummaries all, const float* scale, double* losses, std::int64_t first) {
  const std::int64_t i = first + blockIdx.x;
  float* const row = part.logits.row(i);
  const std::int64_t target = part.targets[i], column = target - part.first_token;
  if (target < 0) {
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if (scale != nullptr) scale_row(row, 0, part.columns, 0, -1, 0);
    return;
  }
  const double own = all.of[all.own * all.rows + i].largest;
  double largest = own, sum = 0, logit = 0;
  for (std::int64_t p = 0; p < all.parts; ++p) {
    const double other = all.of[p * all.rows + i].largest;
    largest = largest < other ? other : largest;
  }
  for (std::int64_t p = 0; p < all.parts; ++p) {
    const RowSummary summary = all.of[p * all.rows + i];
    sum += summary.sum * exponential_below_one(summary.largest - largest);
    logit += summary.logit;
  }
  if (threadIdx.x == 0) losses[blockIdx.x] = logarithm(sum) + (largest - logit);
  if (scale == nullptr) return;
  const auto factor = static_cast<float>(*scale * exponential_below_one(own - largest) / sum);
  scale_row(row, part.tokens, part.columns, factor, column >= 0 && column < part.tokens ? column : -1, *scale);
}

struct BlockSums {
  double of[loss_threads];
};

/// sum += the losses in blocks of 64, each in order from zero, by one block of threads.
__global__ void __launch_bounds__(loss_threads, 1) add_losses_kernel(double* sum, const double* losses, std::int64_t rows) {
  auto& shared = shared_memory<BlockSums>();
  for (std::int64_t begin = 0; begin < rows; begin += loss_threads * block_rows) {
    const std::int64_t first = begin + threadIdx.x * block_rows;
    double part = 0;
    for (std::int64_t i = first; i < first + block_rows && i < rows; ++i) part += losses[i];
    shared.of[threadIdx.x] = part;
    __syncthreads();
    if (threadIdx.x == 0) {
      double total = *sum;
      for (std::int64_t b = 0; b < loss_threads && begin + b * block_rows < rows; ++b) total += shared.of[b];
      *sum = total;
    }
    __syncthreads();
  }
}

class CudaLoss final : public Loss {
 public:
  explicit CudaLoss(const Context& context) : Loss(context.observer), context_(context) {}

 private:
  static PartLogits part_of(const Tensor& logits, const Tensor& targets, std::int64_t first_token, std::int64_t tokens) {
    return {rows_of<float>(logits), data_of<const std::int32_t>(targets), first_token, tokens, logits.columns()};
  }

  /// compute(losses, first, count) starts a kernel for the losses of `count` rows from `first` on, as many as the workspace
  /// holds, which are then added.
  template <class Compute>
  void add_losses(std::int64_t rows, const Tensor& loss_sum, const Compute& compute) {
    const std::span<double> losses = context_.scratch<double>();
    const std::int64_t per_round = std::ssize(losses) / block_rows * block_rows;
    for (std::int64_t first = 0; first < rows; first += per_round) {
      const std::int64_t count = std::min(per_round, rows - first);
      compute(losses.data(), first, count);
      if (!loss_sum) continue;
      launch(context_, {1, loss_threads, sizeof(BlockSums)}, &add_losses_kernel, data_of<double>(loss_sum), losses.data(), count);
    }
  }

  static LaunchShape a_block_a_row(std::int64_t rows) { return {narrow<unsigned>(rows), loss_threads, sizeof(LossShared)}; }

  void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                  const Tensor& loss_sum) override {
    add_losses(logits.rows(), loss_sum, [&](double* losses, std::int64_t first, std::int64_t count) {
      launch(context_, a_block_a_row(count), &loss_kernel, part_of(logits, targets, 0, vocabulary), data_of<const float>(scale),
             losses, first);
    });
  }

  void do_summarise(const Tensor& summary, const Tensor& logits, const Tensor& targets, const VocabularyPart& part,
                    bool keep_exponentials) override {
    launch(context_, a_block_a_row(logits.rows()), &summary_kernel, part_of(logits, targets, part.first_token, part.tokens),
           data_of<RowSummary>(summary), keep_exponentials);
  }

  void do_finish(const Tensor& logits, const Tensor& targets, const VocabularyPart& part, const Tensor& summaries,
                 const Tensor& scale, const Tensor& loss_sum) override {
    const std::int64_t rows = logits.rows(), parts = rows > 0 ? summaries.elements() / (summary_columns * rows) : 0;
    const AllSummaries all{data_of<const RowSummary>(summaries), parts, rows, part.number};
    add_losses(rows, loss_sum, [&](double* losses, std::int64_t first, std::int64_t count) {
      launch(context_, a_block_a_row(count), &finish_kernel, part_of(logits, targets, part.first_token, part.tokens), all,
             data_of<const float>(scale), losses, first);
    });
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Loss> make_loss(const Context& context) { return std::make_unique<CudaLoss>(context); }

}  // namespace lockstep::ops::cuda
