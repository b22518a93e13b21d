#include "parallel/context/whole_samples.h"

#include <algorithm>

#include "base/checked.h"

namespace lockstep::parallel {

WholeSamples::WholeSamples(std::int64_t positions, int rank, int ranks)
    : positions_(positions), rank_(rank), usual_(static_cast<std::size_t>(ranks)), columns_(usual_.size()) {
  split_all_positions(usual_, positions);
}

void WholeSamples::connect(comm::Communicator& group) {
  group_ = &group;
  exchange_.connect(group, comm::Purpose::activations);
}

void WholeSamples::declare(Arena& workspace, std::int64_t rows, std::int64_t gathered, std::int64_t dealt, DType type) {
  const std::int64_t samples = rows / positions_, width = div_up(dealt, ranks());
  std::int64_t most = 0;
  for (const ops::Positions& own : usual_) most = std::max(most, samples * own.count());
  workspace.declare(gathered_, "rows of whole samples", Shape{rows * gathered}, type);
  workspace.declare(dealt_, "columns of whole samples", Shape{rows * width}, type);
  exchange_.declare(workspace, std::max(most * ranks(), rows) * std::max(gathered, width), type);
}

SplitRows WholeSamples::rows(std::int64_t own, std::span<const ops::Positions> parts) const {
  const std::span<const ops::Positions> by_rank = parts.empty() ? std::span(usual_) : parts;
  return {by_rank, positions_, own / by_rank[static_cast<std::size_t>(rank_)].count()};
}

Tensor WholeSamples::bring(ops::Ops& ops, const Tensor& own, std::span<const ops::Positions> parts, const Tensor& to) {
  const SplitRows rows = this->rows(own.rows(), parts);
  const std::int64_t width = columns_[static_cast<std::size_t>(rank_)].count;
  const Tensor all = to.flat(0, rows.all() * width).reshape(Shape{rows.all(), width});
  exchange_.inwards(ops, all, own, columns_, rows);
  return all;
}

Tensor WholeSamples::gather(ops::Ops& ops, const Tensor& own, std::span<const ops::Positions> parts) {
  if (!divided()) return own;
  columns_.assign(columns_.size(), {0, own.columns()});
  return bring(ops, own, parts, gathered_);
}

Tensor WholeSamples::deal(ops::Ops& ops, const Tensor& own, std::span<const ops::Positions> parts) {
  if (!divided()) return own;
  for (int rank = 0; rank < ranks(); ++rank)
    columns_[static_cast<std::size_t>(rank)] = layout::part_of(own.columns(), rank, ranks());
  return bring(ops, own, parts, dealt_);
}

void WholeSamples::collect(ops::Ops& ops, const Tensor& x) {
  if (!divided()) return;
  const std::int64_t each = x.elements() / ranks();
  const std::vector<std::int64_t> counts(usual_.size(), each);
  group_->moving(comm::Purpose::activations).all_gather(x, x.flat(rank_ * each, each), counts).join(ops.stream());
}

void WholeSamples::add_up(ops::Ops& ops, const Tensor& x) {
  if (divided()) group_->moving(comm::Purpose::activations).all_reduce(x, comm::Reduction::sum).join(ops.stream());
}

void WholeSamples::add_parts(ops::Ops& ops, const Tensor& x) {
  if (group_->size() > 1) group_->moving(comm::Purpose::activations).all_reduce(x, comm::Reduction::sum).join(ops.stream());
}

void WholeSamples::take_own(ops::Ops& ops, const Tensor& own, const Tensor& all, std::span<const ops::Positions> parts) const {
  rows(own.rows(), parts).for_runs(rank_, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    ops.elementwise().cast(own.slice_rows(to, count), all.slice_rows(from, count));
  });
}

}  // namespace lockstep::parallel
