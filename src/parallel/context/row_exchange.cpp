#include "parallel/context/row_exchange.h"

#include <algorithm>
#include <numeric>

namespace lockstep::parallel {
namespace {

using layout::Range;

const Range& of_rank(const RowExchange::Columns& columns, int rank) { return columns[static_cast<std::size_t>(rank)]; }

}  // namespace

void RowExchange::declare(Arena& arena, std::int64_t elements, DType type) {
  arena.declare(sent_, "sent rows", Shape{elements}, type);
  arena.declare(received_, "received rows", Shape{elements}, type);
}

void RowExchange::exchange(ops::Ops& ops) {
  const auto total = [](const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  group_->moving(purpose_)
      .all_to_all(received_.flat(0, total(incoming_)), incoming_, sent_.flat(0, total(outgoing_)), outgoing_)
      .join(ops.stream());
}

void RowExchange::inwards(ops::Ops& ops, const Tensor& all, const Tensor& own, const Columns& columns, const SplitRows& rows) {
  const std::int64_t width = of_rank(columns, group_->rank()).count;
  outgoing_.resize(columns.size());
  incoming_.resize(columns.size());
  std::int64_t at = 0;
  for (int rank = 0; rank < group_->size(); ++rank) {
    const Range& theirs = of_rank(columns, rank);
    const Tensor message = sent_.flat(at, own.rows() * theirs.count).reshape({own.rows(), theirs.count});
    ops.elementwise().cast(message, own.slice_columns(theirs.first, theirs.count));
    at += outgoing(rank) = message.elements();
    incoming(rank) = rows.of_rank(rank) * width;
  }
  exchange(ops);
  at = 0;
  for (int rank = 0; rank < group_->size(); ++rank) {
    const Tensor message = received_.flat(at, incoming(rank)).reshape({rows.of_rank(rank), width});
    rows.for_runs(rank, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      ops.elementwise().cast(all.slice_rows(to, count), message.slice_rows(from, count));
    });
    at += message.elements();
  }
}

void RowExchange::outwards(ops::Ops& ops, const Tensor& own, const Tensor& all, const Columns& columns, const SplitRows& rows) {
  const std::int64_t width = of_rank(columns, group_->rank()).count;
  outgoing_.resize(columns.size());
  incoming_.resize(columns.size());
  std::int64_t at = 0;
  for (int rank = 0; rank < group_->size(); ++rank) {
    const Tensor message = sent_.flat(at, rows.of_rank(rank) * width).reshape({rows.of_rank(rank), width});
    rows.for_runs(rank, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      ops.elementwise().cast(message.slice_rows(to, count), all.slice_rows(from, count));
    });
    at += outgoing(rank) = message.elements();
    incoming(rank) = own.rows() * of_rank(columns, rank).count;
  }
  exchange(ops);
  std::int64_t written = 0;  // columns of `own` before which all have a value
  at = 0;
  for (int rank = 0; rank < group_->size(); ++rank) {
    const Range& theirs = of_rank(columns, rank);
    const Tensor message = received_.flat(at, incoming(rank)).reshape({own.rows(), theirs.count});
    const std::int64_t again = std::clamp<std::int64_t>(written - theirs.first, 0, theirs.count), rest = theirs.count - again;
    if (again > 0) ops.elementwise().add(own.slice_columns(theirs.first, again), message.slice_columns(0, again));
    if (rest > 0) ops.elementwise().cast(own.slice_columns(theirs.first + again, rest), message.slice_columns(again, rest));
    written = std::max(written, theirs.end());
    at += message.elements();
  }
}

}  // namespace lockstep::parallel
