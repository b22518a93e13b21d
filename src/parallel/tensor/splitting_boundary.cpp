#include "parallel/tensor/splitting_boundary.h"

#include "base/error.h"
#include "parallel/tensor/summing_boundary.h"

namespace lockstep::parallel {

TokenBlock SplittingBoundary::outside(const TokenGrid& tokens) const {
  return {{0, tokens.samples}, layout::part_of(tokens.positions, group_.rank(), group_.size())};
}

template <class Start>
comm::Request SplittingBoundary::for_each_sample(const Tensor& inside, const Tensor& outside, const TokenGrid& tokens,
                                                 const Start& start) {
  const std::int64_t own = this->outside(tokens).positions.count;
  ensure(inside.rows() == tokens.rows() && outside.rows() == tokens.samples * own,
         "a rank has its positions of every sample outside");
  for (int rank = 0; rank < group_.size(); ++rank) {
    counts_[static_cast<std::size_t>(rank)] = layout::part_of(tokens.positions, rank, group_.size()).count * inside.columns();
  }
  std::vector<comm::Request> samples;
  samples.reserve(static_cast<std::size_t>(tokens.samples));
  for (std::int64_t sample = 0; sample < tokens.samples; ++sample)
    samples.push_back(
        start(inside.slice_rows(sample * tokens.positions, tokens.positions), outside.slice_rows(sample * own, own)));
  return comm::all_of(std::move(samples));
}

comm::Request SplittingBoundary::gather(const Tensor& inside, const Tensor& outside, const TokenGrid& tokens) {
  return for_each_sample(inside, outside, tokens, [&](const Tensor& all, const Tensor& own) {
    return group_.moving(comm::Purpose::activations).all_gather(all, own, counts_);
  });
}

comm::Request SplittingBoundary::reduce(const Tensor& outside, const Tensor& inside, const TokenGrid& tokens) {
  ensure(inside.dtype == DType::f32 && outside.dtype == DType::f32, "sums are carried in f32");
  return for_each_sample(inside, outside, tokens, [&](const Tensor& partial, const Tensor& own) {
    return group_.moving(comm::Purpose::activations).reduce_scatter(own, partial, counts_, comm::Reduction::sum);
  });
}

comm::Request SplittingBoundary::collect(const Tensor& all, const Tensor& own) { return collect_equal(group_, all, own); }

}  // namespace lockstep::parallel
