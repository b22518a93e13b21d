#pragma once

// One operation of all ranks on buffers of its own. They are filled with values that every rank can work out, the operation runs,
// and its results are checked. All that is timed or shown as correct was checked by this. `send`: every rank sends its buffer to
// the next rank while it receives from the previous one; a single rank sends nothing. `barrier` has no buffers. It is correct
// when no rank leaves before all have entered.

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
/// The collective of this name. Throws UserError, naming the known ones.
comm::Collective collective_from_name(std::string_view name);

/// Bytes that a rank's buffers take for a payload of `bytes`.
std::int64_t trial_bytes(comm::Collective op, std::int64_t bytes, int ranks);

class CollectiveTrial {
 public:
  /// Takes memory for payloads of up to `most_elements` floats. `root`: for operations that have one. The arguments are the same
  /// on every rank; world and team outlive the object.
  CollectiveTrial(comm::Collective op, int root, std::int64_t most_elements, comm::Communicator& world, Team& team,
                  MemorySource& memory);

  /// Sets the payload to `elements`, a multiple of the number of ranks. Fills all buffers: inputs with this rank's values, the
  /// others with zeros.
  void fill(std::int64_t elements);
  /// Bytes of the payload. For all_reduce, reduce, broadcast and send it is the buffer of a rank. A barrier has none. For the
  /// others it is the buffer with all ranks' parts.
  std::int64_t bytes() const { return elements_ * static_cast<std::int64_t>(sizeof(float)); }
  void run();
  /// What is wrong on this rank after fill() and one run(); none: nothing. For a barrier the call is collective, and compares
  /// ranks of one host alone, which share a clock.
  std::optional<std::string> fault() const;
  /// Seconds between entering and leaving the barrier in its last run.
  double held_seconds() const { return left_ - entered_; }

  /// given(): the input of this rank. got(): its output, as it is so far; empty where this rank gets nothing.
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
