#pragma once

// mma.m16n8k16 of a warp in bf16 with fp32 sums, as the PTX manual deals the fragments out to lanes.

#include <cstdint>

#include "emulation/block.h"

namespace lockstep::emulation {

/// One lane's part: 2 x 2 numbers of d, 2 x 4 of a, 4 x 1 of b.
struct Fragments {
  float d[4];
  std::uint32_t a[4], b[2];
};

/// A Deliver (emulation/block.h): each lane takes its four numbers of d + a b.
void multiply_fragments(Lane* lanes, unsigned mask);

/// sum + a b as Hopper's tensor cores add it.
float add_sixteen(float sum, const float (&a)[16], const float (&b)[16]);

/// The addresses that the 32 lanes give, in the order of ldmatrix: of `row` of each of the four matrices. Valid until the
/// caller's next meeting.
struct Rows {
  const void* of[32];
};
const Rows& rows_of_warp(const void* row, Place at);

}  // namespace lockstep::emulation
