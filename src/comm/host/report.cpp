#include "comm/host/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/timer.h"

namespace lockstep::comm::host {
namespace {

std::string name_slot(const Slot& slot) { return describe(slot.kind, slot.reduction, slot.dtype, slot.root, slot.count); }

bool counts_agree(const GroupView& group, Collective kind, int rank, std::uint64_t sequence) {
  const auto n = static_cast<std::size_t>(group.board.ranks());
  const std::int64_t* first = group.board.counts(0, sequence);
  const std::int64_t* other = group.board.counts(rank, sequence);
  if (kind == Collective::all_gather || kind == Collective::reduce_scatter) return std::equal(first, first + n, other);
  return true;
}

}  // namespace

std::string name_operation(const GroupView& group, int rank, std::uint64_t sequence) {
  return fmt::format("{}, operation {} of '{}'", name_slot(group.board.slot(rank, sequence)), sequence, group.name);
}

std::vector<int> missing(const GroupView& group, std::uint64_t sequence) {
  std::vector<int> ranks;
  for (int r = 0; r < group.board.ranks(); ++r) {
    if (group.board.counters(r).entered.load(std::memory_order_acquire) <= sequence) {
      ranks.push_back(group.members[static_cast<std::size_t>(r)]);
    }
  }
  return ranks;
}

std::string last_operations(const GroupView& group) {
  std::string text;
  const double now = now_seconds();
  for (int r = 0; r < group.board.ranks(); ++r) {
    const std::uint64_t entered = group.board.counters(r).entered.load(std::memory_order_acquire);
    const std::uint64_t done = group.board.counters(r).done.load(std::memory_order_acquire);
    text += fmt::format("\n  rank {}: ", group.members[static_cast<std::size_t>(r)]);
    if (entered == 0) {
      text += "has entered nothing";
      continue;
    }
    const Slot& slot = group.board.slot(r, entered - 1);
    text += fmt::format("entered {}, operation {}, {:.1f} s ago{}", name_slot(slot), entered - 1, now - slot.entered,
                        done == entered ? " and did its share" : "");
  }
  return text;
}

std::string disagreement(const GroupView& group, std::uint64_t sequence) {
  const Slot& first = group.board.slot(0, sequence);
  for (int r = 1; r < group.board.ranks(); ++r) {
    const Slot& slot = group.board.slot(r, sequence);
    const bool same = slot.kind == first.kind && slot.reduction == first.reduction && slot.dtype == first.dtype &&
                      slot.root == first.root && slot.count == first.count;
    if (same && counts_agree(group, first.kind, r, sequence)) continue;
    return fmt::format("ranks {} and {} entered different operations as operation {} of '{}': {} and {}{}", group.members[0],
                       group.members[static_cast<std::size_t>(r)], sequence, group.name, name_slot(first), name_slot(slot),
                       same ? ", with other counts by rank" : "");
  }
  return {};
}

}  // namespace lockstep::comm::host
