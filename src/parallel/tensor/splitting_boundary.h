#pragma once

// Tensor parallelism with sequence parallelism (Korthikanti et al. 2022). Outside, ranks divide the positions of every sample as
// evenly as can be. Rows are gathered inwards, sums scattered outwards. That takes as many bytes as summing for all.

#include <vector>

#include "comm/communicator.h"
#include "parallel/boundary.h"

namespace lockstep::parallel {

class SplittingBoundary final : public Boundary {
 public:
  /// `group`: the tensor ranks; it outlives this.
  explicit SplittingBoundary(comm::Communicator& group) : group_(group), counts_(static_cast<std::size_t>(group.size())) {}
  BoundaryKind kind() const override { return BoundaryKind::splitting; }
  TokenBlock outside(const TokenGrid& tokens) const override;
  comm::Request gather(const Tensor& inside, const Tensor& outside, const TokenGrid& tokens) override;
  comm::Request reduce(const Tensor& outside, const Tensor& inside, const TokenGrid& tokens) override;
  comm::Request collect(const Tensor& all, const Tensor& own) override;
  comm::Request add_up(const Tensor& x) override {
    return group_.moving(comm::Purpose::activations).all_reduce(x, comm::Reduction::sum);
  }

 private:
  /// Calls start(a sample's rows inside, this rank's rows of the sample) for every sample. A sample's rows lie together inside
  /// and outside.
  template <class Start>
  comm::Request for_each_sample(const Tensor& inside, const Tensor& outside, const TokenGrid& tokens, const Start& start);

  comm::Communicator& group_;
  std::vector<std::int64_t> counts_;  ///< elements of a sample by rank
};

}  // namespace lockstep::parallel
