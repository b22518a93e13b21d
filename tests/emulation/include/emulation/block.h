#pragma once

// What threads of a block do together, as device code calls it. The calling thread goes on when its partners are there; meanwhile
// others run.

#include <cstddef>
#include <source_location>

namespace lockstep::emulation {

/// Copies without ThreadSanitizer's notice: what the emulation moves is not moved by the threads.
void copy_unseen(void* to, const void* from, std::size_t bytes);

/// A place in device code. Two places are the same where file, line and column are.
using Place = std::source_location;

/// All threads of the block meet, and see what the others wrote. A thread that has left, or is at another barrier, is a failure.
void barrier(Place at);

/// What a lane gives to a meeting of its warp, and what it takes from there.
struct Lane {
  alignas(16) std::byte given[48];
  alignas(16) std::byte taken[256];
};
/// Makes what the lanes of `mask` take, of what they gave.
using Deliver = void (*)(Lane* lanes, unsigned mask);

/// The lanes of `mask` meet. Each gives `bytes` (at most 48); the result is what `deliver` made for the caller, valid until its
/// next meeting. Orders no memory, as NVIDIA says of shuffles, votes and products.
const void* meet(unsigned mask, const void* given, std::size_t bytes, Deliver deliver, Place at);
/// The lanes of `mask` meet, and see what the others wrote.
void warp_barrier(unsigned mask, Place at);
/// The caller's place in its warp.
int lane();

/// Copies to shared memory that need not be done when they are issued. Whether one is done at once is drawn by lot.
bool copy_now();
void copy_later(void* to, const void* from);
/// Ends a group of copies.
void commit_copies();
/// The next copy that has to be done so that at most `open` groups are left; false where there is none.
bool copy_due(unsigned open, void*& to, const void*& from);

/// The block's dynamic shared memory, which ends at a guard page. More than the launch asked for is a failure.
void* dynamic_shared(std::size_t bytes, Place at);

/// Ends the block with a failure: `why`, and where its threads are.
[[noreturn]] void fail(const char* why, Place at);

}  // namespace lockstep::emulation
