#include "parallel/tensor/summing_boundary.h"

#include "base/error.h"

namespace lockstep::parallel {

comm::Request collect_equal(comm::Communicator& group, const Tensor& all, const Tensor& own) {
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()), own.elements());
  return group.all_gather(all, own, counts);
}

comm::Request SummingBoundary::gather(const Tensor& /*inside*/, const Tensor& /*outside*/, const TokenGrid& /*tokens*/) {
  throw BrokenRule("every rank has all rows");
}

comm::Request SummingBoundary::reduce(const Tensor& outside, const Tensor& inside, const TokenGrid& /*tokens*/) {
  ensure(outside.data == inside.data && inside.dtype == DType::f32, "sums of all rows take the place of their parts, in f32");
  return group_.moving(comm::Purpose::activations).all_reduce(inside, comm::Reduction::sum);
}

comm::Request SummingBoundary::add_up(const Tensor& x) {
  return group_.moving(comm::Purpose::activations).all_reduce(x, comm::Reduction::sum);
}

comm::Request SummingBoundary::collect(const Tensor& all, const Tensor& own) { return collect_equal(group_, all, own); }

}  // namespace lockstep::parallel
