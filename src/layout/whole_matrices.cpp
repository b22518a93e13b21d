#include "layout/whole_matrices.h"

#include <algorithm>
#include <numeric>

namespace lockstep::layout {
namespace {

double cost_of(const WholeMatrix& matrix) {
  const auto [least, most] = std::minmax({static_cast<double>(matrix.rows), static_cast<double>(matrix.columns)});
  return least * least * (2 * most + least);
}

/// Numbers of the matrices by owner.
std::vector<int> by_owner(const std::vector<WholeMatrix>& matrices) {
  std::vector<int> order(matrices.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int m) { return matrices[static_cast<std::size_t>(m)].owner; });
  return order;
}

/// Adds what of `range` of a unit is of the matrix.
void add_part(MatrixMessage& message, const WholeMatrix& matrix, int number, const Unit& unit, Range range) {
  const PlacedParameter& placed = unit.parameters[static_cast<std::size_t>(matrix.parameter)];
  MatrixPart part{.matrix = number, .elements = {range.first, 0}, .place = message.elements};
  const Range held = overlap({placed.offset, placed.shape().elements()}, range);
  if (held.count == 0) return;
  for (const Rectangle& r : placed.shard.rectangles({held.first - placed.offset, held.count})) {
    MatrixPiece piece{.matrix = number, .place = message.elements};
    std::int64_t local = r.local;
    if (r.rows > 1 || r.columns < r.stride) {
      piece.row = r.global / matrix.columns;
      piece.column = r.global % matrix.columns;
      piece.rows = r.rows;
      piece.columns = r.columns;
    } else {
      const Range inside = overlap({r.global, r.columns}, {matrix.first, matrix.elements()});
      if (inside.count == 0) continue;
      local += inside.first - r.global;
      piece.row = (inside.first - matrix.first) / matrix.columns;
      piece.column = (inside.first - matrix.first) % matrix.columns;
      piece.rows = 1;
      piece.columns = inside.count;
    }
    if (part.elements.count == 0) part.elements.first = placed.offset + local;
    const std::int64_t count = piece.rows * piece.columns;
    ensure(part.elements.end() == placed.offset + local, "what a rank holds of a matrix lies in one run");
    part.elements.count += count;
    message.elements += count;
    message.pieces.push_back(piece);
  }
  if (part.elements.count > 0) message.parts.push_back(part);
}

template <class RangesOf>
MatrixMessage message_of(const std::vector<WholeMatrix>& matrices, const MatrixHolder& holder, int ranks,
                         const RangesOf& ranges_of) {
  MatrixMessage message;
  message.counts.assign(static_cast<std::size_t>(ranks), 0);
  for (const int number : by_owner(matrices)) {
    const WholeMatrix& matrix = matrices[static_cast<std::size_t>(number)];
    const Unit& unit = holder.units[static_cast<std::size_t>(matrix.unit)];
    const std::int64_t before = message.elements;
    for (const Range& range : ranges_of(unit, matrix)) add_part(message, matrix, number, unit, range);
    message.counts[static_cast<std::size_t>(matrix.owner)] += message.elements - before;
  }
  return message;
}

/// Adds those pieces of a rank's message that go to `owner`, which are placed from `place` on; returns how many elements.
std::int64_t add_pieces(std::vector<MatrixPiece>& all, const MatrixMessage& message, const std::vector<WholeMatrix>& matrices,
                        int owner, std::int64_t place) {
  std::int64_t count = 0;
  for (MatrixPiece piece : message.pieces) {
    if (matrices[static_cast<std::size_t>(piece.matrix)].owner != owner) continue;
    piece.place = place + count;
    count += piece.rows * piece.columns;
    all.push_back(piece);
  }
  return count;
}

}  // namespace

std::vector<WholeMatrix> whole_matrices(const std::vector<Unit>& units, const std::function<bool(const ParameterInfo&)>& wanted) {
  std::vector<WholeMatrix> all;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t p = 0; units[u].trained && p < units[u].parameters.size(); ++p) {
      const ParameterInfo& info = units[u].parameters[p].info;
      if (!wanted(info)) continue;
      WholeMatrix matrix{static_cast<int>(u), static_cast<int>(p), 0, info.shape[0], info.shape[1], 0};
      if (info.rule.axis != 0) {
        all.push_back(matrix);
        continue;
      }
      for (const ShardGroup& group : info.rule.groups) {
        matrix.rows = group.pieces * group.size;
        all.push_back(matrix);
        matrix.first += matrix.elements();
      }
    }
  }
  return all;
}

void share_out(std::vector<WholeMatrix>& matrices, int first, int ranks) {
  std::vector<std::size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t m) { return cost_of(matrices[m]); });
  std::vector<double> loads(static_cast<std::size_t>(ranks));
  for (const std::size_t m : order) {
    const auto least = std::ranges::min_element(loads);
    *least += cost_of(matrices[m]);
    matrices[m].owner = first + static_cast<int>(least - loads.begin());
  }
}

MatrixMessage held_message(const std::vector<WholeMatrix>& matrices, const MatrixHolder& holder, int ranks) {
  return message_of(matrices, holder, ranks,
                    [&](const Unit& unit, const WholeMatrix&) { return std::vector{holder.cut.held(unit)}; });
}

MatrixMessage own_message(const std::vector<WholeMatrix>& matrices, const MatrixHolder& holder, int ranks) {
  return message_of(matrices, holder, ranks, [&](const Unit& unit, const WholeMatrix& matrix) {
    const PlacedParameter& placed = unit.parameters[static_cast<std::size_t>(matrix.parameter)];
    return owned_runs(unit, overlap({placed.offset, placed.shape().elements()}, holder.cut.own(unit)));
  });
}

MatrixPlan matrix_plan(const Mesh& mesh, int rank, const std::vector<std::vector<Unit>>& units, CutOver over,
                       const std::function<bool(const ParameterInfo&)>& wanted) {
  const ParallelPlan& plan = mesh.plan();
  MatrixPlan mine{.ranks = mesh.ranks(), .matrices = whole_matrices(units.front(), wanted)};
  const int together = plan.dp * plan.cp * plan.tp, stage = mesh.rank({.pp = mesh.coordinates(rank).pp});
  share_out(mine.matrices, stage, together);
  mine.arriving_counts.assign(static_cast<std::size_t>(mine.ranks), 0);
  mine.leaving_counts = mine.arriving_counts;
  for (int m = 0; m < std::ssize(mine.matrices); ++m) {
    if (mine.matrices[static_cast<std::size_t>(m)].owner == rank) mine.owned.push_back(m);
  }
  std::int64_t arrived = 0, left = 0;
  for (int other = stage; other < stage + together; ++other) {
    const Coordinates at = mesh.coordinates(other);
    const MatrixHolder holder{units[static_cast<std::size_t>(at.tp)], state_cut(plan, at, over)};
    MatrixMessage held = held_message(mine.matrices, holder, mine.ranks), own = own_message(mine.matrices, holder, mine.ranks);
    mine.alike = mine.alike && held.elements == own.elements;
    arrived += mine.arriving_counts[static_cast<std::size_t>(other)] =
        add_pieces(mine.arriving, own, mine.matrices, rank, arrived);
    left += mine.leaving_counts[static_cast<std::size_t>(other)] = add_pieces(mine.leaving, held, mine.matrices, rank, left);
    if (other != rank) continue;
    mine.held = std::move(held);
    mine.own = std::move(own);
  }
  return mine;
}

}  // namespace lockstep::layout
