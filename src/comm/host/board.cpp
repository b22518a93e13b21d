#include "comm/host/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "base/checked.h"
#include "base/timer.h"

namespace lockstep::comm::host {
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t longest_reason = 4000;
constexpr double longest_wait_for_a_reason = 1;  // seconds

std::size_t lines(std::size_t bytes) { return (bytes + line - 1) / line * line; }

}  // namespace

std::size_t Board::slot_size(int ranks) { return lines(sizeof(Slot) + static_cast<std::size_t>(ranks) * sizeof(std::int64_t)); }

std::size_t Board::bytes(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return n * sizeof(RankCounters) + n * n * sizeof(Channel) + n * depth * slot_size(ranks);
}

// Zeroed memory is the start state of every counter.
Board::Board(std::byte* memory, int ranks)
    : ranks_(ranks),
      counters_(reinterpret_cast<RankCounters*>(memory)),
      channels_(reinterpret_cast<Channel*>(memory + static_cast<std::size_t>(ranks) * sizeof(RankCounters))),
      slots_(reinterpret_cast<std::byte*>(channels_ + static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks))) {}

Slot& Board::slot(int rank, std::uint64_t sequence) const {
  const std::uint64_t index = static_cast<std::uint64_t>(rank) * depth + sequence % depth;
  return *reinterpret_cast<Slot*>(slots_ + index * slot_bytes());
}

std::int64_t* Board::counts(int rank, std::uint64_t sequence) const {
  return reinterpret_cast<std::int64_t*>(&slot(rank, sequence) + 1);
}

struct Roll::State {
  std::atomic<std::uint32_t> aborted;  // 0: no; 1: the reason is being written; 2: it is there
  std::atomic<std::uint32_t> failing;  // 1 + the first rank that announced its failure; 0: none
  char reason[longest_reason];
};

std::size_t Roll::bytes(int ranks) { return lines(sizeof(State)) + static_cast<std::size_t>(ranks) * sizeof(Entry); }

Roll::Roll(std::byte* memory, int ranks)
    : ranks_(ranks),
      state_(reinterpret_cast<State*>(memory)),
      entries_(reinterpret_cast<Entry*>(memory + lines(sizeof(State)))) {}

void Roll::abort(const std::string& reason) const {
  std::uint32_t none = 0;
  if (!state_->aborted.compare_exchange_strong(none, 1)) return;
  const std::size_t length = std::min(reason.size(), longest_reason - 1);
  std::memcpy(state_->reason, reason.data(), length);
  state_->reason[length] = 0;
  state_->aborted.store(2);
}

void Roll::announce_failure(int rank) const {
  std::uint32_t none = 0;
  state_->failing.compare_exchange_strong(none, static_cast<std::uint32_t>(rank) + 1);
}

bool Roll::aborted() const { return state_->aborted.load() != 0 || state_->failing.load() != 0; }

std::string Roll::reason() const {
  for (const double since = now_seconds(); state_->aborted.load() != 2 && aborted();) {
    if (now_seconds() - since > longest_wait_for_a_reason) break;
    std::this_thread::yield();
  }
  if (state_->aborted.load() == 2) return state_->reason;
  const std::uint32_t failing = state_->failing.load();
  if (failing != 0) return fmt::format("rank {} failed, and did not come to say why", failing - 1);
  return aborted() ? "a rank ended the run, and did not come to say why" : "";
}

void Roll::set(int rank, Phase phase) const { entries_[rank].phase.store(phase); }

Phase Roll::phase(int rank) const { return entries_[rank].phase.load(); }

void Roll::beat(int rank) const { entries_[rank].beats.fetch_add(1); }

std::uint64_t Roll::beats(int rank) const { return entries_[rank].beats.load(); }

void Roll::set_awaited(int rank, std::optional<int> other) const { entries_[rank].awaited.store(other ? *other + 1 : 0); }

std::string Roll::awaited_by(int rank) const {
  std::string text;
  std::set<int> told{rank};
  for (int next = entries_[rank].awaited.load(); next > 0 && told.insert(next - 1).second;
       next = entries_[next - 1].awaited.load())
    text += fmt::format("{}which waits for rank {}", text.empty() ? " (" : ", ", next - 1);
  return text.empty() ? text : text + ")";
}

bool Roll::begin_move(int rank) const {
  entries_[rank].moving.store(1);
  if (!aborted()) return true;
  entries_[rank].moving.store(0);
  return false;
}

void Roll::end_move(int rank) const { entries_[rank].moving.store(0); }

void Roll::await_no_moves(int own_rank, double seconds, const std::function<void()>& look_after) const {
  const double since = now_seconds();
  for (int rank = 0; rank < ranks_; ++rank) {
    while (rank != own_rank && entries_[rank].moving.load() != 0 && phase(rank) == Phase::running) {
      if (now_seconds() - since > seconds) return;
      if (look_after) look_after();
      std::this_thread::yield();
    }
  }
}

}  // namespace lockstep::comm::host
