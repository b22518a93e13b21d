#pragma once

// The C++ twin of the file that holds the PTX. It is written from NVIDIA's PTX manual: mma.m16n8k16, ldmatrix, cp.async.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cuda_runtime.h"
#include "emulation/tensor_product.h"
#include "tensor/bfloat16.h"

namespace lockstep::ops::cuda {

/// The block's dynamic shared memory as a T.
template <class T>
T& shared_memory(emulation::Place at = emulation::Place::current()) {
  return *static_cast<T*>(emulation::dynamic_shared(sizeof(T), at));
}

/// d += a b of 16 x 16 and 16 x 8 numbers in bf16; each lane has its fragments of them.
inline void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                      emulation::Place at = emulation::Place::current()) {
  emulation::Fragments mine;
  std::memcpy(mine.d, d, sizeof d);
  std::memcpy(mine.a, a, sizeof a);
  std::memcpy(mine.b, b, sizeof b);
  std::memcpy(d, emulation::meet(~0U, &mine, sizeof mine, emulation::multiply_fragments, at), sizeof d);
}

/// Four 8 x 8 matrices of bf16. Lane 8 i + r points at row r of matrix i; lane l takes two neighbours of row l / 4 of each.
inline void ldmatrix_x4(std::uint32_t (&to)[4], const void* row, emulation::Place at = emulation::Place::current()) {
  const emulation::Rows& rows = emulation::rows_of_warp(row, at);
  const int lane = emulation::lane();
  for (int i = 0; i < 4; ++i) to[i] = static_cast<const std::uint32_t*>(rows.of[i * 8 + lane / 4])[lane % 4];
}

/// The same of the transposed matrices: lane l takes rows 2 (l % 4) and the next of column l / 4.
inline void ldmatrix_x4_transposed(std::uint32_t (&to)[4], const void* row, emulation::Place at = emulation::Place::current()) {
  const emulation::Rows& rows = emulation::rows_of_warp(row, at);
  const int lane = emulation::lane(), first = lane % 4 * 2, column = lane / 4;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t low = static_cast<const std::uint16_t*>(rows.of[i * 8 + first])[column];
    const std::uint32_t high = static_cast<const std::uint16_t*>(rows.of[i * 8 + first + 1])[column];
    to[i] = low | high << 16;
  }
}

/// cp.async of 16 bytes: done by lot at once, or when it is waited for.
inline void copy_16_async(void* to, const void* from, emulation::Place at = emulation::Place::current()) {
  if (std::bit_cast<std::uintptr_t>(to) % 16 != 0 || std::bit_cast<std::uintptr_t>(from) % 16 != 0)
    emulation::fail("cp.async of 16 bytes needs addresses aligned to 16", at);
  if (emulation::copy_now()) {
    *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
  } else {
    emulation::copy_later(to, from);
  }
}
/// cp.async with 16 or no bytes to read; the rest is filled with zeros.
inline void copy_16_async_or_zero(void* to, const void* from, bool there, emulation::Place at = emulation::Place::current()) {
  alignas(16) static constexpr uint4 zeros{};
  copy_16_async(to, there ? from : &zeros, at);
}
inline void copies_commit() { emulation::commit_copies(); }
/// Waits until at most `groups` of the caller's groups are open.
template <int groups>
void copies_wait() {
  void* to = nullptr;
  const void* from = nullptr;
  while (emulation::copy_due(groups, to, from)) *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
}

/// cvt.rn.bf16x2.f32: the second number is the upper half.
inline std::uint32_t pack_bf16(float first, float second) {
  return static_cast<std::uint32_t>(to_bfloat16(first)) | static_cast<std::uint32_t>(to_bfloat16(second)) << 16U;
}

inline float without_subnormals(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x; }
/// ex2.approx.ftz and rcp.approx.ftz, which are near these.
inline float near_two_to(float x) { return without_subnormals(std::exp2(without_subnormals(x))); }
inline float near_reciprocal(float x) { return without_subnormals(1 / without_subnormals(x)); }

}  // namespace lockstep::ops::cuda
