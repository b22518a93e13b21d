#include "comm/mpi/message_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "base/timer.h"
#include "comm/combine.h"
#include "comm/errors.h"

namespace lockstep::comm {
namespace {

std::uint64_t hash_of(std::span<const std::int64_t> counts) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const std::int64_t count : counts) hash = (hash ^ static_cast<std::uint64_t>(count)) * 1099511628211ULL;
  return hash;
}

std::int64_t before(std::span<const std::int64_t> counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

bool is_reduction(Collective kind) {
  return kind == Collective::all_reduce || kind == Collective::reduce || kind == Collective::reduce_scatter;
}

}  // namespace

std::string describe(const MessageCard& card) { return describe(card.kind, card.reduction, card.dtype, card.root, card.count); }

void MessageOperation::begin(const Operation& operation, std::uint64_t sequence, std::int64_t count) {
  const auto n = static_cast<std::size_t>(group_.size());
  operation_ = operation;
  counts_.assign(operation.counts.begin(), operation.counts.end());
  out_counts_.assign(operation.out_counts.begin(), operation.out_counts.end());
  operation_.counts = counts_;
  operation_.out_counts = out_counts_;
  const bool by_rank = operation.kind == Collective::all_gather || operation.kind == Collective::reduce_scatter;
  own_ = {.sequence = sequence,
          .kind = operation.kind,
          .reduction = operation.reduction,
          .dtype = operation.dtype,
          .root = operation.root,
          .count = count,
          .counts = by_rank ? hash_of(counts_) : 0,
          .piece = 0};
  phase_ = Phase::fresh;
  sent_.assign(n, own_);
  got_.resize(n);
  greetings_.resize(n);
  greeted_.assign(n, 0);
}

void MessageOperation::advance(Phase limit) {
  while (phase_ < limit && step()) phase_ = static_cast<Phase>(static_cast<int>(phase_) + 1);
}

// Whether the next phase is reached.
bool MessageOperation::step() {
  switch (phase_) {
    case Phase::fresh:
      greet();
      send_parts();
      return true;
    case Phase::cards:
      if (!all_greeted()) return false;
      check();
      receive_parts();
      return true;
    case Phase::data:
      if (!transfers_.done()) return false;
      if (is_reduction(operation_.kind)) combine_range();
      if (operation_.kind == Collective::all_reduce) exchange_results();
      return true;
    case Phase::results:
      if (!transfers_.done()) return false;
      if (space_.capacity() > 0) group_.spaces.push_back(std::move(space_));
      return true;
    case Phase::ended:
      break;
  }
  return false;
}

// Tells everybody what this rank has entered.
void MessageOperation::greet() {
  const auto me = static_cast<std::size_t>(group_.rank);
  for (std::size_t r = 0; r < sent_.size(); ++r) {
    if (operation_.kind == Collective::all_to_all) sent_[r].piece = counts_[r];
    if (r == me) continue;
    greetings_[r].receive(bytes_of(got_[r]), group_.members[r], group_.tag(use_card));
    transfers_.send(bytes_of(sent_[r]), group_.members[r], group_.tag(use_card));
  }
  got_[me] = sent_[me];
  greeted_[me] = 1;
  group_.last[me] = {own_, now_seconds()};
}

bool MessageOperation::all_greeted() {
  bool all = true;
  for (std::size_t r = 0; r < greetings_.size(); ++r) {
    if (greeted_[r] != 0) continue;
    if (greetings_[r].done()) {
      greeted_[r] = 1;
      group_.last[r] = {got_[r], now_seconds()};
    } else {
      all = false;
    }
  }
  return all;
}

std::vector<int> MessageOperation::missing() const {
  std::vector<int> ranks;
  if (phase_ > Phase::cards) return ranks;
  for (std::size_t r = 0; r < greeted_.size(); ++r) {
    if (greeted_[r] == 0) ranks.push_back(group_.members[r]);
  }
  return ranks;
}

void MessageOperation::check() const {
  const auto me = static_cast<std::size_t>(group_.rank);
  const std::vector<int>& members = group_.members;
  for (std::size_t r = 0; r < members.size(); ++r) {
    const MessageCard& got = got_[r];
    MessageCard same = got;
    same.piece = own_.piece;
    if (same != own_) {
      throw RunAborted(fmt::format("ranks {} and {} entered different operations as operation {} of '{}': {} and {}{}",
                                   members[std::min(r, me)], members[std::max(r, me)], own_.sequence, group_.name,
                                   describe(got_[std::min(r, me)]), describe(got_[std::max(r, me)]),
                                   describe(got) == describe(own_) ? ", with other counts by rank" : ""));
    }
    if (own_.kind == Collective::all_to_all && got.piece != out_counts_[r]) {
      throw RunAborted(fmt::format("all_to_all, operation {} of '{}': rank {} sends {} elements to rank {}, which expects {}",
                                   own_.sequence, group_.name, members[r], got.piece, members[me], out_counts_[r]));
    }
  }
}

// What a rank makes of a reduction.
MessageOperation::Range MessageOperation::range_of(int rank) const {
  const Operation& op = operation_;
  if (op.kind == Collective::reduce_scatter) return {before(counts_, rank), counts_[static_cast<std::size_t>(rank)]};
  if (op.kind == Collective::reduce) return {0, rank == op.root ? op.count : 0};
  const std::int64_t part = div_up(op.count, static_cast<std::int64_t>(group_.size()));
  const std::int64_t first = std::min(op.count, part * rank);
  return {first, std::min(part, op.count - first)};
}

void MessageOperation::send(const Tensor& from, Range range, int to, MessageUse use) {
  if (range.count == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(operation_.dtype));
  transfers_.send({from.data + range.first * size, static_cast<std::size_t>(range.count * size)},
                  group_.members[static_cast<std::size_t>(to)], group_.tag(use));
}

void MessageOperation::receive(std::byte* to, Range range, int from, MessageUse use) {
  if (range.count == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(operation_.dtype));
  transfers_.receive({to + range.first * size, static_cast<std::size_t>(range.count * size)},
                     group_.members[static_cast<std::size_t>(from)], group_.tag(use));
}

// The elements of `in` that another rank gets; in a reduction those are its range.
MessageOperation::Range MessageOperation::given_to(int rank) const {
  const Operation& op = operation_;
  switch (op.kind) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::reduce_scatter:
      return range_of(rank);
    case Collective::broadcast:
      return {0, group_.rank == op.root ? op.count : 0};
    case Collective::all_gather:
      return {0, counts_[static_cast<std::size_t>(group_.rank)]};
    case Collective::gather:
      return {0, rank == op.root ? op.count : 0};
    case Collective::scatter:
      return {rank * op.count, group_.rank == op.root ? op.count : 0};
    case Collective::all_to_all:
      return {before(counts_, rank), counts_[static_cast<std::size_t>(rank)]};
    default:
      return {0, 0};
  }
}

// The elements of `out` that a rank gives; a reduction has none.
MessageOperation::Range MessageOperation::got_from(int rank) const {
  const Operation& op = operation_;
  switch (op.kind) {
    case Collective::broadcast:
    case Collective::scatter:
      return {0, rank == op.root ? op.count : 0};
    case Collective::all_gather:
      return {before(counts_, rank), counts_[static_cast<std::size_t>(rank)]};
    case Collective::gather:
      return {rank * op.count, group_.rank == op.root ? op.count : 0};
    case Collective::all_to_all:
      return {before(out_counts_, rank), out_counts_[static_cast<std::size_t>(rank)]};
    default:
      return {0, 0};
  }
}

void MessageOperation::send_parts() {
  for (int r = 0; r < group_.size(); ++r) {
    if (r != group_.rank) send(operation_.in, given_to(r), r, use_input);
  }
}

// In a reduction, receives every rank's part of this rank's range, one behind another. Else receives everything at its place.
void MessageOperation::receive_parts() {
  const Operation& op = operation_;
  const auto element = static_cast<std::int64_t>(size_of(op.dtype));
  if (is_reduction(op.kind)) {
    const std::int64_t mine = range_of(group_.rank).count;
    if (!group_.spaces.empty()) {
      space_ = std::move(group_.spaces.back());
      group_.spaces.pop_back();
    }
    const auto needed = static_cast<std::size_t>(mine * (group_.size() - 1) * element);
    if (space_.size() < needed) space_.resize(needed);
    std::int64_t at = 0;
    for (int r = 0; r < group_.size(); ++r) {
      if (r == group_.rank) continue;
      receive(space_.data(), {at, mine}, r, use_input);
      at += mine;
    }
    return;
  }
  for (int r = 0; r < group_.size(); ++r) {
    const Range to = got_from(r);
    if (r != group_.rank) {
      receive(op.out.data, to, r, use_input);
    } else if (to.count > 0) {
      std::memmove(op.out.data + to.first * element, op.in.data + given_to(r).first * element,
                   static_cast<std::size_t>(to.count * element));
    }
  }
}

void MessageOperation::combine_range() {
  const Operation& op = operation_;
  const Range mine = range_of(group_.rank);
  if (mine.count == 0) return;
  const auto element = static_cast<std::int64_t>(size_of(op.dtype));
  sources_.clear();
  const std::byte* at = space_.data();
  for (int r = 0; r < group_.size(); ++r) {
    if (r == group_.rank) {
      sources_.push_back(op.in.data + mine.first * element);
    } else {
      sources_.push_back(at);
      at += mine.count * element;
    }
  }
  const std::array<std::byte*, 1> to{op.out.data + (op.kind == Collective::reduce_scatter ? 0 : mine.first * element)};
  combine(op.reduction, op.dtype, sources_, to, 0, mine.count);
}

void MessageOperation::exchange_results() {
  for (int r = 0; r < group_.size(); ++r) {
    if (r == group_.rank) continue;
    send(operation_.out, range_of(group_.rank), r, use_result);
    receive(operation_.out.data, range_of(r), r, use_result);
  }
}

}  // namespace lockstep::comm
