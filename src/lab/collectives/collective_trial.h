#pragma once

// One operation of all ranks on buffers of its own: filled with values that every rank can work out, run, and checked. What is
// timed or shown as correct has been checked by this. `send`: every rank sends its buffer to the next one while it receives that
// of the previous rank; a single rank sends nothing. `barrier` has no buffers: it is correct when no rank leaves before all have
// entered.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "device/memory.h"
#include "device/team.h"

namespace lockstep::lab {

/// The operations that can be tried, in the order in which they are reported.
std::span<const comm::Collective> tried_collectives();
/// Throws UserError, naming those there are.
comm::Collective collective_from_name(std::string_view name);

/// Bytes that a rank's buffers take for a payload of `bytes`.
std::int64_t trial_bytes(comm::Collective op, std::int64_t bytes, int ranks);

class CollectiveTrial {
 public:
  /// Takes memory for payloads of up to `most_elements` floats. `root` where the operation has one. The same on every rank; world
  /// and team outlive it.
  CollectiveTrial(comm::Collective op, int root, std::int64_t most_elements, comm::Communicator& world, Team& team,
                  MemorySource& memory);

  /// From now on the payload is `elements`, a multiple of the ranks. Everything is filled anew: with what a rank gives, and
  /// zeros.
  void fill(std::int64_t elements);
  /// Payload of all_reduce, reduce, broadcast and send: the buffer of each; of a barrier none; of the others the buffer of all
  /// ranks' parts.
  std::int64_t bytes() const { return elements_ * static_cast<std::int64_t>(sizeof(float)); }
  void run();
  /// After fill() and one run(): what is wrong on this rank, if anything. For a barrier this is collective, and compares ranks of
  /// one host alone, which share a clock.
  std::optional<std::string> fault() const;
  /// Seconds from entering to leaving the barrier in its last run.
  double held_seconds() const { return left_ - entered_; }

  /// What this rank gives, or will; and what it has got, or has there so far (empty: nothing comes here).
  std::span<const float> given() const;
  std::span<const float> got() const;

 private:
  bool has_root() const;
  int neighbour(int step) const { return (world_.rank() + step + world_.size()) % world_.size(); }
  std::optional<std::string> barrier_fault() const;
  float expected(std::int64_t index) const;
  std::span<float> whole() const;
  std::span<float> part() const;

  comm::Collective op_;
  int root_;
  comm::Communicator& world_;
  Team& team_;
  Memory whole_, other_;
  std::int64_t elements_ = 0;
  std::vector<std::int64_t> counts_;
  double entered_ = 0, left_ = 0;  // the barrier, by this host's clock
};

}  // namespace lockstep::lab
