#pragma once

// Training state in a rank's memory whose master copies are kept in halves. One half is the bf16 weights that the model reads,
// the other 16 bits a weight beside them (Elementwise::split). So bf16 takes no more bytes a parameter than fp32. Visits that
// want whole masters get them a range at a time, in a small buffer.

#include <vector>

#include "ops/elementwise.h"
#include "parallel/zero/resident_state.h"

namespace lockstep::parallel {

class HalvedState final : public ResidentState {
 public:
  /// Elements of a range in which masters are whole, at most.
  static constexpr std::int64_t range_elements = std::int64_t{1} << 18;

  /// `whole`: f32, with at least one element. All arguments outlive this.
  HalvedState(const ResidentParts& parts, const Tensor& whole, ops::Elementwise& elementwise);
  bool stays(const Use& use) const override { return !use.weights; }

 private:
  void visit(const Use& use, Call call, void* body) override;

  const Tensor& whole_;
  ops::Elementwise& elementwise_;
  std::vector<Tensor> slots_;  ///< of the range that is visited
};

}  // namespace lockstep::parallel
