#include "parallel/global_norm.h"

#include <cmath>
#include <span>

namespace lockstep::parallel {
namespace {

Tensor view_of(std::vector<double>& numbers) {
  return view(std::span(numbers), Shape{static_cast<std::int64_t>(numbers.size())});
}

}  // namespace

GlobalNorm::GlobalNorm(const std::vector<layout::Unit>& units, comm::Communicator& group)
    : units_(units), group_(group), mine_(units.size()), all_(units.size() * static_cast<std::size_t>(group.size())) {}

double GlobalNorm::operator()(ops::Reduce& reduce, GradientStore& gradients) {
  const int ranks = group_.size();
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const layout::Range range = layout::range_of(units_[u], group_.rank(), ranks);
    const GradientStore::Shard shard = gradients.shard(UnitIndex{static_cast<int>(u)});
    mine_[u] = reduce.sum_of_squares(shard.gradient.flat(range.first - shard.first, range.count));
  }
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), static_cast<std::int64_t>(units_.size()));
  group_.all_gather(view_of(all_), view_of(mine_), counts).wait();
  double sum = 0;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) sum += all_[r * units_.size() + u];
  }
  return std::sqrt(sum);
}

}  // namespace lockstep::parallel
