#pragma once

// Shuffles and votes of a warp.

#include <bit>
#include <type_traits>

#include "emulation/block.h"

namespace lockstep::emulation {

template <class T>
struct Shuffled {
  T value;
  int from;
};

template <class T>
__attribute__((no_sanitize("thread"))) void deliver_shuffled(Lane* lanes, unsigned mask) {
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    const int from = reinterpret_cast<const Shuffled<T>*>(lanes[i].given)->from;
    if ((mask >> from & 1U) == 0) continue;  // undefined, says NVIDIA: what the lane took last
    copy_unseen(lanes[i].taken, lanes[from].given, sizeof(T));
  }
}

/// Lane `from` of the caller's part of `width` lanes; a lane outside of the part is the caller.
template <class T>
T shuffle(unsigned mask, T value, int from, int width, Place at) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8);
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width)))
    fail("a shuffle's width is no power of two", at);
  const int first = lane() / width * width;
  if (from < first || from >= first + width) from = lane();
  if ((mask >> from & 1U) == 0) fail("a lane reads one that is not in the mask", at);
  const Shuffled<T> given{value, from};
  T result;
  copy_unseen(&result, meet(mask, &given, sizeof given, deliver_shuffled<T>, at), sizeof result);
  return result;
}

__attribute__((no_sanitize("thread"))) inline void deliver_votes(Lane* lanes, unsigned mask) {
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1U) != 0 && lanes[i].given[0] != std::byte{0}) votes |= 1U << i;
  }
  for (int i = 0; i < 32; ++i) copy_unseen(lanes[i].taken, &votes, sizeof votes);
}

inline unsigned vote(unsigned mask, bool yes, Place at) {
  const std::byte given{static_cast<unsigned char>(yes)};
  unsigned votes;
  copy_unseen(&votes, meet(mask, &given, 1, deliver_votes, at), sizeof votes);
  return votes;
}

}  // namespace lockstep::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32,
              lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  return lockstep::emulation::shuffle(mask, value, lockstep::emulation::lane() / width * width + (from & (width - 1)), width, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32,
                  lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  return lockstep::emulation::shuffle(mask, value, lockstep::emulation::lane() ^ with, width, at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                   lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  return lockstep::emulation::shuffle(mask, value, lockstep::emulation::lane() + static_cast<int>(by), width, at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                 lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  return lockstep::emulation::shuffle(mask, value, lockstep::emulation::lane() - static_cast<int>(by), width, at);
}
inline unsigned __ballot_sync(unsigned mask, int yes, lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  return lockstep::emulation::vote(mask, yes != 0, at);
}
inline int __any_sync(unsigned mask, int yes, lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  return lockstep::emulation::vote(mask, yes != 0, at) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int yes, lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  return lockstep::emulation::vote(mask, yes != 0, at) == mask ? 1 : 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU, lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  lockstep::emulation::warp_barrier(mask, at);
}
inline void __syncthreads(lockstep::emulation::Place at = lockstep::emulation::Place::current()) {
  lockstep::emulation::barrier(at);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
