#pragma once

// What a rank exchanges with others, counted: bytes, and the time that it stands still for them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "comm/operation.h"

namespace lockstep::comm {

/// What an exchange moves.
enum class Purpose : std::uint8_t {
  gradients,
  weights,
  activations,  ///< and their gradients: between parts of layers, stages, ranks that divide positions
  keys,         ///< keys, values and their gradients, of ranks that attend together
  other         ///< losses, norms, decisions
};
inline constexpr std::size_t kPurposes = static_cast<std::size_t>(Purpose::other) + 1;
std::string_view name_of(Purpose purpose);

/// Exchanges of one kind for one purpose.
struct Exchanged {
  std::int64_t sent = 0;  ///< bytes, as sent_bytes() counts them
  double waited = 0;      ///< seconds in wait(), join() and barrier()
  double hidden = 0;      ///< at most: seconds in which they were under way while the rank did something else

  Exchanged& operator+=(const Exchanged& more);
  Exchanged operator-(const Exchanged& before) const {
    return {sent - before.sent, waited - before.waited, hidden - before.hidden};
  }
};

/// Exchanges by purpose and kind.
struct Traffic {
  std::array<std::array<Exchanged, kCollectives>, kPurposes> all = {};

  Exchanged& at(Purpose purpose, Collective kind) {
    return all[static_cast<std::size_t>(purpose)][static_cast<std::size_t>(kind)];
  }
  const Exchanged& at(Purpose purpose, Collective kind) const {
    return all[static_cast<std::size_t>(purpose)][static_cast<std::size_t>(kind)];
  }
  Exchanged of(Purpose purpose) const;
  Exchanged total() const;
  /// Seconds waited, over all purposes.
  CollectiveSeconds waited() const;
  Traffic operator-(const Traffic& before) const;
};

/// Bytes that rank `rank` of `size` = n ranks sends for an operation, where every element moves as seldom as in a ring. For an
/// all_reduce of S bytes that is 2 S (n - 1) / n. For a reduce_scatter or an all_gather it is half of that, on average over
/// ranks. The root of a broadcast or a scatter sends what the others get. In a reduce or a gather the others send what they give.
/// Ranks of one host share memory and send nothing; for them it is what they would send.
std::int64_t sent_bytes(const Operation& operation, int rank, int size);

}  // namespace lockstep::comm
