#pragma once

// Tensor parallelism (Megatron: Shoeybi et al. 2019): each rank makes a part of every sum, and all get all sums. For s tokens of
// width h, each of t ranks sends 2 s h (t - 1) / t fp32 elements a sum.

#include <vector>

#include "comm/communicator.h"
#include "parallel/boundary.h"

namespace lockstep::parallel {

class SummingBoundary final : public Boundary {
 public:
  /// `group`: the tensor ranks; it outlives this.
  explicit SummingBoundary(comm::Communicator& group) : group_(group) {}
  BoundaryKind kind() const override { return BoundaryKind::summing; }
  TokenBlock outside(const TokenGrid& tokens) const override { return {{0, tokens.samples}, {0, tokens.positions}}; }
  comm::Request gather(const Tensor& inside, const Tensor& outside, const TokenGrid& tokens) override;
  comm::Request reduce(const Tensor& outside, const Tensor& inside, const TokenGrid& tokens) override;
  comm::Request collect(const Tensor& all, const Tensor& own) override;
  comm::Request add_up(const Tensor& x) override;

 private:
  comm::Communicator& group_;
};

/// all = every rank's `own`, one after another.
comm::Request collect_equal(comm::Communicator& group, const Tensor& all, const Tensor& own);

}  // namespace lockstep::parallel
