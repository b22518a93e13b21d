#include "layout/shard.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace lockstep::layout {
namespace {

/// A group's users that work on this rank.
Range users_of(const ShardGroup& group, TensorRank tensor) {
  return part_of(multiply(group.pieces, group.users), tensor.rank, tensor.ranks);
}

/// The pieces whose first user works on this rank: of the ranks that hold a piece, one.
Range owned_pieces(const ShardGroup& group, TensorRank tensor) {
  const Range users = users_of(group, tensor);
  const std::int64_t first = div_up(users.first, group.users);
  return {first, div_up(users.end(), group.users) - first};
}

}  // namespace

Range held_pieces(const ShardGroup& group, TensorRank tensor) {
  const Range users = users_of(group, tensor);
  const std::int64_t first = users.first / group.users;
  return {first, users.count == 0 ? 0 : div_up(users.end(), group.users) - first};
}

Shard::Shard(const Shape& whole, const ShardRule& rule, TensorRank tensor)
    : whole_(whole), shape_(whole), rule_(rule), tensor_(tensor) {
  ensure(whole.rank() >= 1 && whole.rank() <= 2 && rule.axis < whole.rank(), "a parameter is cut along one of its axes");
  ensure(tensor.rank >= 0 && tensor.rank < tensor.ranks, "the rank lies among its ranks");
  if (rule.axis < 0) {
    runs_.push_back({0, 0, whole[0], {0, tensor.rank == 0 ? whole[0] : 0}});
    return;
  }
  std::int64_t end = 0;
  for (const ShardGroup& group : rule.groups) {
    ensure(rule.axis == 0 || (rule.groups.size() == 1 && group.users == 1), "columns are cut as one group that is not shared");
    add_group(group, end);
    end += multiply(group.pieces, group.size);
  }
  ensure(end == whole[rule.axis], "the groups are the whole axis");
  const std::int64_t held = runs_.empty() ? 0 : runs_.back().local + runs_.back().count;
  if (whole.rank() == 1) {
    shape_ = Shape{held};
  } else {
    shape_ = rule.axis == 0 ? Shape{held, whole[1]} : Shape{whole[0], held};
  }
}

void Shard::add_group(const ShardGroup& group, std::int64_t first) {
  const Range held = held_pieces(group, tensor_), owned = owned_pieces(group, tensor_);
  const std::int64_t local = runs_.empty() ? 0 : runs_.back().local + runs_.back().count;
  runs_.push_back({local,
                   first + held.first * group.size,
                   held.count * group.size,
                   {(owned.first - held.first) * group.size, owned.count * group.size}});
  if (group.users > 1) share(group, local);
}

// Neighbouring pieces that the same ranks hold make one range.
void Shard::share(const ShardGroup& group, std::int64_t local) {
  const std::int64_t row = whole_.rank() == 1 ? 1 : whole_[1];
  const Range held = held_pieces(group, tensor_);
  for (std::int64_t piece = held.first; piece < held.end(); ++piece) {
    std::vector<int> ranks;
    for (int rank = 0; rank < tensor_.ranks; ++rank) {
      const Range theirs = held_pieces(group, {rank, tensor_.ranks});
      if (piece >= theirs.first && piece < theirs.end()) ranks.push_back(rank);
    }
    if (ranks.size() == 1) continue;
    const Range elements{(local + (piece - held.first) * group.size) * row, group.size * row};
    if (!shared_.empty() && shared_.back().elements.end() == elements.first && shared_.back().ranks == ranks) {
      shared_.back().elements.count += elements.count;
    } else {
      shared_.push_back({elements, std::move(ranks)});
    }
  }
}

std::vector<Rectangle> Shard::rectangles(Range range) const {
  ensure(range.first >= 0 && range.count >= 0 && range.end() <= shape_.elements(), "a range lies within its shard");
  if (range.count == 0) return {};
  return rule_.axis == 1 ? of_columns(range) : of_rows(range);
}

// Neighbours in the shard are neighbours in the whole tensor, too, up to a run's end. What a run's rank owns lies in its middle.
std::vector<Rectangle> Shard::of_rows(Range range) const {
  std::vector<Rectangle> all;
  const std::int64_t row = whole_.rank() == 1 ? 1 : whole_[1];
  const auto add = [&](const Run& run, Range indices, bool owned) {
    const std::int64_t begin = std::max(range.first, (run.local + indices.first) * row);
    const std::int64_t end = std::min(range.end(), (run.local + indices.end()) * row);
    if (begin >= end) return;
    const std::int64_t global = begin + (run.global - run.local) * row;
    const auto follows = [&](const Rectangle& r) { return r.global + r.columns == global && r.owned == owned; };
    if (!all.empty() && follows(all.back())) {
      all.back().columns = all.back().stride = all.back().columns + end - begin;
    } else {
      all.push_back({begin, global, 1, end - begin, end - begin, owned});
    }
  };
  for (const Run& run : runs_) {
    add(run, {0, run.owned.first}, false);
    add(run, run.owned, true);
    add(run, {run.owned.end(), run.count - run.owned.end()}, false);
  }
  return all;
}

// The end of a row, whole rows, the beginning of a row.
std::vector<Rectangle> Shard::of_columns(Range range) const {
  std::vector<Rectangle> all;
  const std::int64_t width = shape_[1], stride = whole_[1];
  if (width == stride) return {{range.first, range.first, 1, range.count, range.count}};
  for (std::int64_t next = range.first; next < range.end();) {
    const std::int64_t left = range.end() - next, column = next % width;
    const bool whole_rows = column == 0 && left >= width;
    const std::int64_t columns = whole_rows ? width : std::min(left, width - column);
    const std::int64_t rows = whole_rows ? left / width : 1;
    all.push_back({next, next / width * stride + runs_.front().global + column, rows, columns, stride});
    next += rows * columns;
  }
  return all;
}

std::vector<SharedRange> Shard::partial(bool sequence) const {
  if (rule_.axis >= 0) return shared_;
  if (!(sequence || rule_.partial) || tensor_.ranks == 1) return {};
  std::vector<int> ranks(static_cast<std::size_t>(tensor_.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {{{0, whole_.elements()}, std::move(ranks)}};
}

}  // namespace lockstep::layout
