#pragma once

// Attention that keeps the weights of every query for every key, as frameworks without tiled attention do
// (kernels.attention=materialised). What tiles save is measured against it. The rank has all positions of its samples.

#include "parallel/context_attention.h"

namespace lockstep::parallel {

class MaterialisedAttention final : public ContextAttention {
 public:
  /// `masked`: each block keeps a mask beside its weights.
  MaterialisedAttention(std::int64_t positions, bool masked) : positions_(positions), masked_(masked) {}
  void declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const override;
  void declare(Arena& arena, const AttentionSizes& sizes) override;
  void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) override;
  void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                const AttentionCall& call) override;

 private:
  ops::WholeWeights whole(const AttentionSaved& saved, const AttentionCall& call) const;

  std::int64_t positions_;
  bool masked_;
  Tensor delta_;      ///< [R, H] f32
  Tensor aside_;      ///< [R H, positions] f32
  Tensor d_k_, d_v_;  ///< [R, K D] f32, where heads share keys and activations are bf16
};

}  // namespace lockstep::parallel
