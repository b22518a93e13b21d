#pragma once

// Attention on the CPU (task.h says how it adds). A call is cut into tasks that workers take one by one. A forward task is a run
// of queries of a head. A backward task is a block of 64 keys of a key/value head. Blocks add to dq in their order, one close
// behind the other, so that a single head keeps a team busy. The cut changes no bit.

#include <cstdint>
#include <memory>

#include "device/memory.h"
#include "ops/attention.h"
#include "ops/cpu/attention/materialised.h"
#include "ops/cpu/attention/task.h"
#include "ops/cpu/context.h"

namespace lockstep::ops::cpu {

class CpuAttention final : public Attention {
 public:
  /// `context` and the products (`plain` may be null), which multiply whole weights, must outlive it. Head sizes up to 256
  /// (BrokenRule above).
  CpuAttention(const Context& context, Product& products, PlainProducts* plain);

  /// Bytes that it holds: a fixed workspace for every worker.
  std::int64_t workspace_bytes() const;

 private:
  void do_forward(const AttentionForward& call) override;
  void do_forward(const CachedAttention& call) override;
  void do_backward(const AttentionBackward& call) override;
  /// Adds up the parts' sums to dk and dv of the call. The parts' sums are overwritten.
  void add_parts(const AttentionBackward& call, const Tensor& dk, const Tensor& dv);
  void compute_delta(const Tensor& delta, const Tensor& d_o, const Tensor& o, const AttentionShape& shape);
  float* workspace(int worker) const;

  const Context& context_;
  MaterialisedAttention materialised_;
  ThinKernel thin_;
  ForwardKernel forward_;
  DeltaKernel delta_;
  BackwardKernel backward_;
  Memory memory_;
  std::int64_t slots_;  ///< entries of progress_: more than the columns that can be under way
  std::unique_ptr<Progress[]> progress_;
};

}  // namespace lockstep::ops::cpu
