#include "parallel/global_norm.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace lockstep::parallel {
namespace {

/// By share: which of `ranks` replicas answers for it.
std::vector<int> by_share(const TrainingState& state, int ranks) {
  std::vector<int> replicas(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) replicas[static_cast<std::size_t>(state.share_of(rank))] = rank;
  return replicas;
}

std::vector<int> by_place(const TrainingState& state, const layout::Mesh& mesh) {
  const layout::ParallelPlan& plan = mesh.plan();
  std::vector<int> order;
  for (int pp = 0; pp < plan.pp; ++pp) {
    for (int tp = 0; tp < plan.tp; ++tp) {
      for (const int replica : by_share(state, plan.dp * plan.cp))
        order.push_back(mesh.rank({.dp = replica / plan.cp, .tp = tp, .cp = replica % plan.cp, .pp = pp}));
    }
  }
  return order;
}

}  // namespace

void NormMemory::declare(Arena& workspace, const std::vector<layout::Unit>& units, int ranges_of_unit, int ranks, bool exact) {
  if (exact) return workspace.declare(digits, "squares of gradients", Shape{ops::Reduce::exact_digits}, DType::i64);
  std::size_t most = 1;
  for (const layout::Unit& unit : units) most = std::max(most, layout::owned_runs(unit, {0, unit.elements}).size());
  const std::int64_t partials = std::ssize(units) * ranges_of_unit;
  workspace.declare(runs, "squares of gradients", Shape{partials * static_cast<std::int64_t>(most)}, DType::f64);
  workspace.declare(squares, "squares of all ranks", Shape{ranks * partials}, DType::f64);
}

GlobalNorm::GlobalNorm(TrainingState& state, const NormMemory& memory, comm::Communicator& group, std::vector<int> order)
    : state_(state),
      group_(group),
      memory_(memory),
      partials_(std::ssize(state.units()) * state.ranges_of_unit()),
      counts_(static_cast<std::size_t>(group.size()), partials_),
      order_(std::move(order)) {
  ensure(exact() || memory.squares.device.elements() == group.size() * partials_,
         "the norm has a place for each rank's partials");
}

GlobalNorm::GlobalNorm(TrainingState& state, const NormMemory& memory, comm::Communicator& group)
    : GlobalNorm(state, memory, group, by_share(state, group.size())) {}

GlobalNorm::GlobalNorm(TrainingState& state, const NormMemory& memory, const Groups& groups)
    : GlobalNorm(state, memory, groups.all(), by_place(state, groups.mesh())) {}

void GlobalNorm::add(ops::Ops& ops, const StateRange& range, std::int64_t number) {
  const layout::Unit& unit = state_.units()[static_cast<std::size_t>(range.unit.value)];
  if (exact()) begin_exact(ops);
  for (const layout::Range& run : layout::owned_runs(unit, range.own)) {
    if (exact()) {
      ops.reduce().exact_squares(memory_.digits.device, range.gradient.flat(run.first - range.range.first, run.count));
      continue;
    }
    ops.reduce().sum_of_squares(memory_.runs.device.flat(std::ssize(places_), 1),
                                range.gradient.flat(run.first - range.range.first, run.count));
    places_.push_back(static_cast<std::size_t>(range.unit.value * state_.ranges_of_unit() + number));
  }
}

double GlobalNorm::operator()(ops::Ops& ops) {
  places_.clear();
  UnitIndex unit{-1};
  std::int64_t next = 0;  // range of the unit
  state_.for_each({.weights = false, .gradients = true}, [&](const StateRange& range) {
    next = range.unit == unit ? next + 1 : 0;
    unit = range.unit;
    add(ops, range, next);
  });
  return sum(ops);
}

void GlobalNorm::begin_exact(ops::Ops& ops) {
  if (std::exchange(begun_, true)) return;
  std::ranges::fill(elements<std::int64_t>(memory_.digits.host), 0);
  upload(ops.stream(), memory_.digits);
}

double GlobalNorm::sum_exact(ops::Ops& ops) {
  begin_exact(ops);
  begun_ = false;
  download(ops.stream(), memory_.digits);
  group_.host().all_reduce(memory_.digits.host, comm::Reduction::sum).wait();
  return std::sqrt(ops::Reduce::from_digits(elements<std::int64_t>(memory_.digits.host)));
}

double GlobalNorm::sum(ops::Ops& ops) {
  if (exact()) return sum_exact(ops);
  const std::int64_t each = state_.ranges_of_unit();
  const std::span<double> all = elements<double>(memory_.squares.host);
  const std::span<double> mine =
      all.subspan(static_cast<std::size_t>(group_.rank() * partials_), static_cast<std::size_t>(partials_));
  const Mirror runs = memory_.runs.flat(0, std::ssize(places_));
  download(ops.stream(), runs);
  std::ranges::fill(mine, 0.0);
  for (std::size_t i = 0; i < places_.size(); ++i) mine[places_[i]] += elements<double>(runs.host)[i];
  places_.clear();
  group_.host().all_gather(memory_.squares.host, view(mine, Shape{partials_}), counts_).wait();
  double sum = 0;
  for (std::int64_t u = 0; u < partials_; u += each) {
    for (const int rank : order_) {
      for (std::int64_t k = 0; k < each; ++k) sum += all[static_cast<std::size_t>(rank * partials_ + u + k)];
    }
  }
  return std::sqrt(sum);
}

}  // namespace lockstep::parallel
