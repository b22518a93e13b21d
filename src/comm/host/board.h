#pragma once

// What the ranks of one host know of each other: a block of memory that all of them map, zeroed before use. A group has a
// Board; all groups of a run share one Roll.
//
// A rank writes an operation into its slot and counts it as entered. When all have entered an operation, each does its share and
// counts it as done. When all have done it, its buffers are free. The slots of past operations are the record of what each rank
// did last.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "comm/operation.h"

namespace lockstep::comm::host {

/// An operation as the other ranks see it. `counts` of the slot follow it in memory, one a rank.
struct Slot {
  Collective kind;
  Reduction reduction;
  DType dtype;
  std::int32_t root;
  std::int64_t count;
  double entered;         ///< now_seconds()
  std::uint64_t in, out;  ///< SharedMemory::token of the buffers; 0: none
};

/// Counters of one rank; each is written by that rank alone.
struct alignas(64) RankCounters {
  std::atomic<std::uint64_t> entered;
  alignas(64) std::atomic<std::uint64_t> done;
};

/// One message under way between two ranks.
struct Letter {
  DType dtype;
  std::int64_t count;
  std::uint64_t address;
};
inline constexpr std::uint64_t channel_depth = 4;
struct alignas(64) Channel {
  std::atomic<std::uint64_t> posted;  ///< counted by the sender
  Letter letters[channel_depth];
  alignas(64) std::atomic<std::uint64_t> taken;  ///< counted by the receiver
};

class Board {
 public:
  static constexpr std::uint64_t depth = 32;  ///< operations of one rank under way at a time

  static std::size_t bytes(int ranks);
  /// A view of `bytes(ranks)` bytes aligned to 64.
  Board(std::byte* memory, int ranks);

  int ranks() const { return ranks_; }
  RankCounters& counters(int rank) const { return counters_[rank]; }
  Slot& slot(int rank, std::uint64_t sequence) const;
  std::int64_t* counts(int rank, std::uint64_t sequence) const;
  Channel& channel(int from, int to) const { return channels_[from * ranks_ + to]; }

 private:
  std::size_t slot_bytes() const { return slot_size(ranks_); }
  static std::size_t slot_size(int ranks);

  int ranks_;
  RankCounters* counters_;
  Channel* channels_;
  std::byte* slots_;
};

/// How a rank of the run is doing.
enum class Phase : std::uint32_t { running, finished, failed };

/// Who is still there, and why the run ends early. Ranks are those of the world.
class Roll {
 public:
  static std::size_t bytes(int ranks);
  Roll(std::byte* memory, int ranks);

  /// The first reason counts; later ones are dropped.
  void abort(const std::string& reason) const;
  /// Rank `rank` fails, and will abort() with its reason once it has left what it was doing.
  void announce_failure(int rank) const;
  bool aborted() const;
  /// The reason of abort(). Waits for it, but not long: the rank that had it may be no more.
  std::string reason() const;
  void set(int rank, Phase phase) const;
  Phase phase(int rank) const;
  /// Says that the rank's process runs, whatever its thread computes; called by a thread of its own.
  void beat(int rank) const;
  std::uint64_t beats(int rank) const;
  /// Which rank `rank` waits for, for some time already; none: it does not wait.
  void set_awaited(int rank, std::optional<int> other) const;
  /// " (which waits for rank 2, which waits for rank 5)" of rank 1; "" where it does not wait.
  std::string awaited_by(int rank) const;
  /// Every access to other ranks' buffers stands between these two. begin_move() returns false when the run has been aborted:
  /// then nothing may be touched.
  bool begin_move(int rank) const;
  void end_move(int rank) const;
  /// Called once aborted(). Returns when no rank that is still there touches other ranks' buffers any more, or after `seconds`.
  /// `look_after` may find out who is no more.
  void await_no_moves(int own_rank, double seconds, const std::function<void()>& look_after = {}) const;

 private:
  struct State;
  struct alignas(64) Entry {
    std::atomic<Phase> phase;
    std::atomic<std::uint32_t> moving;
    std::atomic<std::uint64_t> beats;
    std::atomic<std::int32_t> awaited;  ///< 1 + the rank; 0: none
  };
  int ranks_;
  State* state_;
  Entry* entries_;
};

/// Memory that ranks tell each other about. Ranks are those of the world.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  /// A number by which other ranks find() an address in this rank's memory; 0 where they do not see it.
  virtual std::uint64_t token(const std::byte* address) const = 0;
  /// Where this rank sees the address that `rank` has named by `token`.
  virtual std::byte* find(int rank, std::uint64_t token) const = 0;
  /// Memory that is zeroed and that all ranks see, for the rest of the run.
  virtual std::byte* allocate(std::size_t bytes) = 0;
};

}  // namespace lockstep::comm::host
