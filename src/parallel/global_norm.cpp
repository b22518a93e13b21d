#include "parallel/global_norm.h"

#include <cmath>
#include <span>

namespace lockstep::parallel {

void GlobalNorm::declare(Arena& workspace, Mirror& squares, std::size_t units, int ranges_of_unit, int ranks) {
  const std::int64_t partials = static_cast<std::int64_t>(units) * ranges_of_unit;
  workspace.declare(squares, "squares of gradients", Shape{ranks * partials}, DType::f64);
}

GlobalNorm::GlobalNorm(TrainingState& state, const Mirror& squares, comm::Communicator& group)
    : state_(state),
      group_(group),
      squares_(squares),
      partials_(std::ssize(state.units()) * state.ranges_of_unit()),
      counts_(static_cast<std::size_t>(group.size()), partials_),
      ranks_(static_cast<std::size_t>(group.size())) {
  ensure(squares.device.elements() == group.size() * partials_, "the norm has a place for each rank's partials");
  for (int rank = 0; rank < group.size(); ++rank) ranks_[static_cast<std::size_t>(state.share_of(rank))] = rank;
}

double GlobalNorm::operator()(ops::Ops& ops) {
  const std::int64_t each = state_.ranges_of_unit();
  const Tensor mine = squares_.device.flat(group_.rank() * partials_, partials_);
  ops.elementwise().zero(mine);
  UnitIndex unit{-1};
  std::int64_t next = 0;  // range of the unit
  state_.for_each({.gradients = true}, [&](const StateRange& range) {
    next = range.unit == unit ? next + 1 : 0;
    unit = range.unit;
    const Tensor own = range.gradient.flat(range.own.first - range.range.first, range.own.count);
    ops.reduce().sum_of_squares(mine.flat(unit.value * each + next, 1), own);
  });
  group_.all_gather(squares_.device, mine, counts_).join(ops.stream());
  download(ops.stream(), squares_);
  const std::span<const double> all = elements<const double>(squares_.host);
  double sum = 0;
  for (std::int64_t u = 0; u < partials_; u += each) {
    for (const int rank : ranks_) {
      for (std::int64_t k = 0; k < each; ++k) sum += all[static_cast<std::size_t>(rank * partials_ + u + k)];
    }
  }
  return std::sqrt(sum);
}

}  // namespace lockstep::parallel
