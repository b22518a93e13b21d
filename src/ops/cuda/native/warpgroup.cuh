#pragma once

// Hopper's products of a warpgroup, whose operands lie in shared memory (PTX ISA 8.0, section 9.7.15: wgmma), and the
// instructions that order them.

#include "ops/cuda/native/tensor_core.cuh"
#include "tensor/bfloat16.h"

namespace lockstep::ops::cuda {

/// The descriptor of an operand in shared memory (section 9.7.15.5.1). Rows have 128 bytes, swizzled by 128 bytes. Eight rows are
/// 1,024 bytes from the next eight. Where neighbours in memory are neighbours in the result, 64 columns are 8,192 bytes from the
/// next.
__device__ __forceinline__ std::uint64_t operand_descriptor(const void* at) {
  constexpr std::uint64_t fixed = std::uint64_t{8192 >> 4} << 16U | std::uint64_t{1024 >> 4} << 32U | std::uint64_t{1} << 62U;
  return fixed | (shared_address(at) & 0x3FFFFU) >> 4U;
}

/// Begins d [64, 128] += a [64, 16] b [16, 128]. `a` and `b` point at the first of 16 k. An operand "along" has rows of 64 k.
/// Another operand has a row for each k, with 64 of the result's rows or columns.
template <bool a_along, bool b_along>
__device__ __forceinline__ void warpgroup_product(float (&d)[64], const BFloat16* a, const BFloat16* b) {
  asm volatile(
      "{.reg .pred adds; setp.eq.u32 adds, 0, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds, 1, 1, %66, %67;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
        "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
        "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]),
        "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),
        "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(operand_descriptor(a)), "l"(operand_descriptor(b)), "n"(a_along ? 0 : 1), "n"(b_along ? 0 : 1));
}

/// The thread's writes of shared memory are seen by products that begin behind the next barrier.
__device__ __forceinline__ void writes_before_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Products that begin after it see the registers of sums as they were written.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until every product that was committed is done.
__device__ __forceinline__ void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

}  // namespace lockstep::ops::cuda
