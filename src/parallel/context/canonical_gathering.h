#pragma once

// Context parallelism by gathering in canonical mode (numerics.md section 3.8). The forward pass is GatheringAttention's, but
// nothing of it is kept. In the backward pass the gradients of keys and values are sums over queries, of which each rank would
// have a part. So ranks exchange positions for heads there. Each attends again, with all positions of its heads, before it goes
// backward.

#include "parallel/context/exchanging_attention.h"
#include "parallel/context/gathering_attention.h"

namespace lockstep::parallel {

class CanonicalGathering final : public ContextAttention {
 public:
  CanonicalGathering(std::int64_t positions, int rank, int ranks)
      : gathering_(positions, rank, ranks), exchanging_(positions, rank, ranks, 1, true) {}
  void connect(comm::Communicator& group) override;

  void declare(Arena& /*arena*/, AttentionSaved& /*saved*/, const AttentionSizes& /*sizes*/) const override {}
  void declare(Arena& arena, const AttentionSizes& sizes) override;
  void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) override;
  void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                const AttentionCall& call) override;

 private:
  GatheringAttention gathering_;
  ExchangingAttention exchanging_;
  AttentionSaved keys_;   ///< of the forward pass
  AttentionSaved heads_;  ///< of the backward pass
};

}  // namespace lockstep::parallel
