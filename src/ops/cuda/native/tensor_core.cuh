#pragma once

// Things that C++ cannot express: a block's shared memory, and instructions of PTX ISA 8.0 for sm_80 and newer. The instructions
// are:
// - asynchronous copies (section 9.7.9.25)
// - matrices of shared memory in registers (9.7.14.5.15)
// - products of tensor cores (9.7.14.5.14)
// - approximate functions (9.7.3)

#include <cuda_runtime.h>

#include <cstdint>

namespace lockstep::ops::cuda {

/// The block's shared memory, of which the launch asked for sizeof(T) bytes; nothing is in it yet.
template <class T>
__device__ __forceinline__ T& shared_memory() {
  extern __shared__ uint4 lockstep_shared[];
  return *reinterpret_cast<T*>(lockstep_shared);
}

__device__ __forceinline__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

/// Begins to copy 16 bytes to shared memory; both addresses are multiples of 16.
__device__ __forceinline__ void copy_16_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)));
}
/// copy_16_async(), or 16 bytes of zeros where nothing is there; then nothing is read.
__device__ __forceinline__ void copy_16_async_or_zero(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)),
               "r"(there ? 16 : 0));
}
/// The thread's copies since the last call become a group.
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;"); }
/// Waits until at most `open` of the thread's groups are not done. Other threads see the copied bytes behind a barrier.
template <int open>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

/// Loads four 8 x 8 matrices of bf16. Lane 8 i + r points at row r of matrix i. A lane gets element (lane / 4, 2 (lane % 4)) of
/// each matrix, and the next one.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Loads the transposes of four 8 x 8 matrices, as ldmatrix_x4() does.
__device__ __forceinline__ void ldmatrix_x4_transposed(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

/// d [16, 8] += a [16, 16] b [16, 8], bf16 in fp32. A lane has element (lane / 4, 2 (lane % 4)) of d, the next one, and the two
/// elements 8 rows below.
__device__ __forceinline__ void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Two numbers, rounded to bf16 to the nearest, the first in the lower half.
__device__ __forceinline__ std::uint32_t pack_bf16(float first, float second) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

/// 2^x within 2^-22. Numbers that are not normal count as zero.
__device__ __forceinline__ float near_two_to(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
/// 1 / x within one unit of the last place. Numbers that are not normal count as zero.
__device__ __forceinline__ float near_reciprocal(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

}  // namespace lockstep::ops::cuda
