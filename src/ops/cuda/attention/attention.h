#pragma once

// Attention's kernels, which attention.cu starts. Tiles of 64 queries and 64 keys; order of additions: ops/cpu/attention/task.h.
// The backward pass has two kernels, which make each block's weights again: one sums dk and dv over queries, the other dq over
// keys.

#include "ops/cuda/context.h"

namespace lockstep::ops::cuda {

inline constexpr std::int64_t max_head_size = 256;

void attention_forward(const Context& context, const AttentionForward& call);
void attention_forward(const Context& context, const CachedAttention& call);
/// Makes the gradients of keys and values. `dk` and `dv` [B*S, parts * D] get the sums of each of `parts`. delta [B*H, T] has
/// been made.
void attention_keys_backward(const Context& context, const AttentionBackward& call, std::span<const HeadPart> parts,
                             const Tensor& dk, const Tensor& dv);
void attention_queries_backward(const Context& context, const AttentionBackward& call);

/// Whether attention runs on tensor cores: in bf16, for heads that are small enough. Weights and gradients of scores are then
/// rounded to bf16 before they are multiplied with values.
inline bool on_tensor_cores(const Context& context, const Tensor& q, const AttentionShape& shape) {
  return context.bf16 == Bf16Products::tensor_cores && q.dtype == DType::bf16 && shape.head_size <= 128;
}
void tensor_attention_forward(const Context& context, const AttentionForward& call);
void tensor_attention_forward(const Context& context, const CachedAttention& call);
void tensor_attention_keys_backward(const Context& context, const AttentionBackward& call, std::span<const HeadPart> parts,
                                    const Tensor& dk, const Tensor& dv);
void tensor_attention_queries_backward(const Context& context, const AttentionBackward& call);

/// Weights that lie whole in memory (ops/attention.h: WholeWeights): products of whole heads, and passes over all scores.
void whole_attention_forward(const Context& context, const AttentionForward& call);
void whole_attention_backward(const Context& context, const AttentionBackward& call);

}  // namespace lockstep::ops::cuda
