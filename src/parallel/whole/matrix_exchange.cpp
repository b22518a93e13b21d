#include "parallel/whole/matrix_exchange.h"

#include <algorithm>
#include <numeric>

namespace lockstep::parallel {
namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Where the piece lies in its matrix.
Tensor place_in(const Tensor& matrix, const layout::MatrixPiece& piece) {
  const std::int64_t columns = matrix.columns();
  if (piece.rows == 1) return matrix.flat(piece.row * columns + piece.column, piece.columns);
  return matrix.slice_rows(piece.row, piece.rows).slice_columns(piece.column, piece.columns);
}

Tensor place_in_message(const Tensor& message, const layout::MatrixPiece& piece) {
  const Tensor flat = message.flat(piece.place, piece.rows * piece.columns);
  return piece.rows == 1 ? flat : flat.reshape({piece.rows, piece.columns});
}

}  // namespace

// Alone, a rank's message is what it gets.
void MatrixMemory::declare(Arena& workspace, layout::MatrixPlan of) {
  plan = std::move(of);
  const auto room = [&](Tensor& tensor, const char* name, std::int64_t count) {
    workspace.declare(tensor, name, Shape{count}, DType::f32);
  };
  room(directions, "directions of matrices", plan.held.elements);
  if (!plan.alike) room(outgoing, "directions for owners", plan.own.elements);
  if (plan.ranks > 1) room(arriving, "directions for this owner", sum_of(plan.arriving_counts));
  if (!plan.alike) room(leaving, "directions from this owner", sum_of(plan.leaving_counts));
  std::int64_t most = 0;
  for (const int m : plan.owned) most = std::max(most, plan.matrices[static_cast<std::size_t>(m)].elements());
  room(whole, "whole matrix", most);
}

MatrixExchange::MatrixExchange(const MatrixMemory& memory, comm::Communicator& group, std::size_t units)
    : memory_(memory), group_(group), of_units_(units) {
  const layout::MatrixPlan& plan = memory.plan;
  ensure(group.size() == plan.ranks, "matrices travel between the ranks of their plan");
  for (const layout::MatrixPart& part : plan.held.parts)
    of_units_[static_cast<std::size_t>(plan.matrices[static_cast<std::size_t>(part.matrix)].unit)].push_back(part);
  for (std::vector<layout::MatrixPart>& parts : of_units_) {
    std::ranges::sort(parts, {}, [](const layout::MatrixPart& part) { return part.elements.first; });
  }
}

void MatrixExchange::with_owners(ops::Ops& ops, const std::function<void(const Tensor& matrix)>& work) {
  const layout::MatrixPlan& plan = memory_.plan;
  const Tensor& outgoing = plan.alike ? memory_.directions : memory_.outgoing;
  for (const layout::MatrixPart& own : plan.own.parts) {
    if (plan.alike) break;
    const layout::MatrixPart& held = held_part(own);
    ops.elementwise().cast(outgoing.flat(own.place, own.elements.count),
                           memory_.directions.flat(held.place + own.elements.first - held.elements.first, own.elements.count));
  }
  const Tensor& arriving = alone() ? outgoing : memory_.arriving;
  const Tensor& leaving = plan.alike ? arriving : memory_.leaving;
  if (!alone())
    group_.moving(comm::Purpose::gradients)
        .all_to_all(arriving, plan.arriving_counts, outgoing, plan.own.counts)
        .join(ops.stream());
  for (const int m : plan.owned) {
    const layout::WholeMatrix& of = plan.matrices[static_cast<std::size_t>(m)];
    const Tensor matrix = memory_.whole.flat(0, of.elements()).reshape({of.rows, of.columns});
    for (const layout::MatrixPiece& piece : plan.arriving) {
      if (piece.matrix == m) ops.elementwise().cast(place_in(matrix, piece), place_in_message(arriving, piece));
    }
    work(matrix);
    for (const layout::MatrixPiece& piece : plan.leaving) {
      if (piece.matrix == m) ops.elementwise().cast(place_in_message(leaving, piece), place_in(matrix, piece));
    }
  }
  if (!alone())
    group_.moving(comm::Purpose::weights)
        .all_to_all(memory_.directions, plan.held.counts, leaving, plan.leaving_counts)
        .join(ops.stream());
}

const layout::MatrixPart& MatrixExchange::held_part(const layout::MatrixPart& own) const {
  for (const layout::MatrixPart& held :
       of_units_[static_cast<std::size_t>(memory_.plan.matrices[static_cast<std::size_t>(own.matrix)].unit)]) {
    if (held.matrix == own.matrix) return held;
  }
  throw BrokenRule("a rank holds what it answers for");
}

}  // namespace lockstep::parallel
