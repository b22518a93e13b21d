// Attention: a call is cut into kernels, what they leave is put together.

#include "ops/check.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/device/each.cuh"
#include "ops/cuda/device/lanes.cuh"

namespace lockstep::ops::cuda {
namespace {

/// delta = the sum of d_o * o over a row of a head, in lanes. Row i is query i % T of head i / T.
template <class S>
struct Delta {
  float* delta;
  Rows<const S> d_o, o;
  std::int64_t queries, heads, head_size;
  __device__ void operator()(std::int64_t i, int lane) const {
    const std::int64_t number = i / queries, sample = number / heads, head = number - sample * heads;
    const std::int64_t row = sample * queries + i - number * queries;
    const S *a = d_o.at(row, head * head_size), *b = o.at(row, head * head_size);
    float sum = 0;
    for (std::int64_t c = lane; c < head_size; c += lanes) sum = fmaf(load(a + c), load(b + c), sum);
    sum = lane_sum(sum);
    if (lane == 0) delta[i] = sum;
  }
};

/// Which parts have the ranges of key/value heads, as many heads as a kernel is given by value; -1: nothing of the range.
struct RangeTable {
  static constexpr std::int64_t most = 64;
  std::int64_t first_head;
  std::int32_t part[most][most_head_ranges];
};

/// A key/value head's gradient from those of its parts, added as a tree. Column j is of the table's heads.
struct AddParts {
  StoredRows to;
  Rows<const float> sums;
  std::int64_t head_size, key_rows, keys;
  RangeTable table;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    if (i % key_rows >= keys) return;
    const std::int64_t head = j / head_size, column = j - head * head_size;
    float value[most_head_ranges];
    bool there[most_head_ranges];
    for (int range = 0; range < most_head_ranges; ++range) {
      const std::int32_t part = table.part[head][range];
      there[range] = part >= 0;
      value[range] = there[range] ? *sums.at(i, part * head_size + column) : 0.0F;
    }
    for (int apart = 1; apart < most_head_ranges; apart *= 2) {
      for (int range = 0; range < most_head_ranges; range += 2 * apart) {
        if (there[range + apart]) value[range] = there[range] ? value[range] + value[range + apart] : value[range + apart];
        there[range] = there[range] || there[range + apart];
      }
    }
    to.put(i, table.first_head * head_size + j, value[0]);
  }
};

class CudaAttention final : public Attention {
 public:
  explicit CudaAttention(const Context& context) : Attention(context.observer), context_(context) {}

 private:
  static void check_head_size(const AttentionShape& shape) {
    ensure(shape.head_size <= max_head_size, "attention: the head size is at most 256");
  }

  void do_forward(const AttentionForward& call) override {
    check_head_size(call.shape);
    if (call.whole) return whole_attention_forward(context_, call);
    on_tensor_cores(context_, call.q, call.shape) ? tensor_attention_forward(context_, call) : attention_forward(context_, call);
  }

  void do_forward(const CachedAttention& call) override {
    check_head_size(call.shape);
    on_tensor_cores(context_, call.q, call.shape) ? tensor_attention_forward(context_, call) : attention_forward(context_, call);
  }

  void do_backward(const AttentionBackward& call) override {
    check_head_size(call.shape);
    make_delta(call);
    if (call.whole) return whole_attention_backward(context_, call);
    if (call.shape.keys == 0) return;
    if (call.parts.empty()) {
      std::vector<HeadPart> heads;
      for (std::int64_t i = 0; i < call.shape.kv_heads; ++i) {
        const std::int64_t first = call.shape.first_head_of(i);
        heads.push_back({i, first, call.shape.first_head_of(i + 1) - first});
      }
      keys_backward(call, heads, call.dk, call.dv);
    } else {
      const Tensor dk = part_sums(call, 0), dv = part_sums(call, 1);
      keys_backward(call, call.parts, dk, dv);
      add_parts(call, call.dk, dk);
      add_parts(call, call.dv, dv);
    }
    on_tensor_cores(context_, call.q, call.shape) ? tensor_attention_queries_backward(context_, call)
                                                  : attention_queries_backward(context_, call);
  }

  void keys_backward(const AttentionBackward& call, std::span<const HeadPart> heads, const Tensor& dk, const Tensor& dv) {
    on_tensor_cores(context_, call.q, call.shape) ? tensor_attention_keys_backward(context_, call, heads, dk, dv)
                                                  : attention_keys_backward(context_, call, heads, dk, dv);
  }

  void make_delta(const AttentionBackward& call) {
    const AttentionShape& shape = call.shape;
    with_storage(call.o.dtype, [&]<class S>(S) {
      for_rows(context_, shape.samples * shape.heads * shape.queries,
               Delta<S>{data_of<float>(call.delta), rows_of<const S>(call.d_o), rows_of<const S>(call.o), shape.queries,
                        shape.heads, shape.head_size});
    });
  }

  /// Where the parts' gradients of keys (0) and of values (1) are left.
  static Tensor part_sums(const AttentionBackward& call, std::int64_t of) {
    const Shape shape{call.k.rows(), std::ssize(call.parts) * call.shape.head_size};
    return call.part_sums.reshape({2 * shape.elements()}).flat(of * shape.elements(), shape.elements()).reshape(shape);
  }

  void add_parts(const AttentionBackward& call, const Tensor& to, const Tensor& sums) {
    const AttentionShape& shape = call.shape;
    for (std::int64_t first = 0; first < shape.kv_heads; first += RangeTable::most) {
      const std::int64_t heads = std::min(RangeTable::most, shape.kv_heads - first);
      RangeTable table{.first_head = first, .part = {}};
      for (auto& ranges : table.part) std::ranges::fill(ranges, -1);
      for (std::size_t i = 0; i < call.parts.size(); ++i) {
        const std::int64_t head = call.parts[i].kv_head - first;
        if (head >= 0 && head < heads) table.part[head][call.parts[i].range] = static_cast<std::int32_t>(i);
      }
      for_matrix(context_, call.k.rows(), heads * shape.head_size,
                 AddParts{stored_rows(to), rows_of<const float>(sums), shape.head_size, shape.key_rows, shape.keys, table});
    }
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Attention> make_attention(const Context& context) { return std::make_unique<CudaAttention>(context); }

}  // namespace lockstep::ops::cuda
