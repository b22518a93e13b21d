#pragma once

// One collective of all ranks on buffers of its own: filled with values that every rank can work out, run, and checked. What is
// timed or shown as correct has been checked by this.

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
  /// Payload of all_reduce, reduce and broadcast: the buffer of each; of the others the buffer of all ranks' parts.
  std::int64_t bytes() const { return elements_ * static_cast<std::int64_t>(sizeof(float)); }
  void run();
  /// After fill() and one run(): what is wrong on this rank, if anything.
  std::optional<std::string> fault() const;

  /// What this rank gives, or will; and what it has got, or has there so far (empty: nothing comes here).
  std::span<const float> given() const;
  std::span<const float> got() const;

 private:
  bool has_root() const;
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
};

}  // namespace lockstep::lab
