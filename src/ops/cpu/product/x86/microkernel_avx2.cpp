#include <immintrin.h>

#include "ops/cpu/product/microkernel.h"

// One row of one k: broadcast a, two multiply-adds. Two temporaries take turns.
#define ROW(address, temporary, low, high)      \
  "vbroadcastss " address ", %[" temporary      \
  "]\n\t"                                       \
  "vfmadd231ps %[b0], %[" temporary "], %[" low \
  "]\n\t"                                       \
  "vfmadd231ps %[b1], %[" temporary "], %[" high "]\n\t"
#define SIX_ROWS(b_at, first, second, third, fourth, fifth, sixth)                                      \
  "vmovaps " b_at                                                                                       \
  "(%[b]), %[b0]\n\t"                                                                                   \
  "vmovaps 32+" b_at "(%[b]), %[b1]\n\t" ROW(first, "t0", "c00", "c01") ROW(second, "t1", "c10", "c11") \
      ROW(third, "t0", "c20", "c21") ROW(fourth, "t1", "c30", "c31") ROW(fifth, "t0", "c40", "c41")     \
          ROW(sixth, "t1", "c50", "c51")

// a as rows of a matrix (a_k = 1), `at` bytes further.
#define RAW_K(b_at, at) \
  SIX_ROWS(b_at, at "(%[a])", at "(%[a],%[s])", at "(%[a],%[s],2)", at "(%[a3])", at "(%[a3],%[s])", at "(%[a3],%[s],2)")
// a packed in strips of six.
#define STRIP_K(b_at, at) \
  SIX_ROWS(b_at, at "(%[a])", "4+" at "(%[a])", "8+" at "(%[a])", "12+" at "(%[a])", "16+" at "(%[a])", "20+" at "(%[a])")

#define FETCH_AHEAD "prefetcht1 (%[ahead])\n\taddq %[ahead_s], %[ahead]\n\t"

#define CLEAR(register) "vxorps %[" register "], %[" register "], %[" register "]\n\t"
#define CLEAR_ALL \
  CLEAR("c00")    \
  CLEAR("c01")    \
  CLEAR("c10")    \
  CLEAR("c11") CLEAR("c20") CLEAR("c21") CLEAR("c30") CLEAR("c31") CLEAR("c40") CLEAR("c41") CLEAR("c50") CLEAR("c51")

#define LOOP(four_k, four_a, one_k, one_a)     \
  CLEAR_ALL                                    \
  "subq $4, %[k]\n\t"                          \
  "js 2f\n\t"                                  \
  ".p2align 4\n\t"                             \
  "1:\n\t" four_k "addq $256, %[b]\n\t" four_a \
  "subq $4, %[k]\n\t"                          \
  "jns 1b\n\t"                                 \
  "2:\n\t"                                     \
  "addq $4, %[k]\n\t"                          \
  "jz 4f\n\t"                                  \
  "3:\n\t" one_k "addq $64, %[b]\n\t" one_a    \
  "decq %[k]\n\t"                              \
  "jnz 3b\n\t"                                 \
  "4:\n\t"

#define OPERANDS                                                                                                          \
  : [c00] "=&x"(c00), [c01] "=&x"(c01), [c10] "=&x"(c10), [c11] "=&x"(c11), [c20] "=&x"(c20), [c21] "=&x"(c21),           \
    [c30] "=&x"(c30), [c31] "=&x"(c31), [c40] "=&x"(c40), [c41] "=&x"(c41), [c50] "=&x"(c50), [c51] "=&x"(c51),           \
    [b0] "=&x"(b0), [b1] "=&x"(b1), [t0] "=&x"(t0), [t1] "=&x"(t1), [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [k] "+r"(k), \
    [ahead] "+r"(ahead)                                                                                                   \
  : [s] "r"(s), [ahead_s] "r"(ahead_s)                                                                                    \
  : "cc", "memory"

namespace lockstep::ops::cpu {

namespace {

__attribute__((target("avx2,fma"), always_inline)) inline void finish_row(const TileStep& step, int row, __m256 low,
                                                                          __m256 high) {
  float* to = step.to + row * step.to_stride;
  if (step.from != nullptr) {
    const float* from = step.from + row * step.from_stride;
    low = _mm256_add_ps(_mm256_loadu_ps(from), low);
    high = _mm256_add_ps(_mm256_loadu_ps(from + 8), high);
  }
  _mm256_storeu_ps(to, low);
  _mm256_storeu_ps(to + 8, high);
}

}  // namespace

__attribute__((target("avx2,fma,prfchw"))) void tile_6x16_avx2(const TileStep& step) {
  const float* a = step.a;
  const float* a3 = a + 3 * step.a_row;
  const float* b = step.b;
  std::int64_t k = step.k;
  const std::int64_t s = step.a_row * 4;
  const void* ahead = step.ahead != nullptr ? step.ahead : a;
  const std::int64_t ahead_s = step.ahead != nullptr ? step.ahead_stride : 0;
  __m256 c00, c01, c10, c11, c20, c21, c30, c31, c40, c41, c50, c51, b0, b1, t0, t1;
  if (step.from != nullptr)
    for (int row = 0; row < 6; ++row) __builtin_prefetch(step.from + row * step.from_stride);
  if (step.to != step.from)
    for (int row = 0; row < 6; ++row) __builtin_prefetch(step.to + row * step.to_stride, 1);
  if (step.a_k == 1) {
    asm volatile(LOOP(RAW_K("0", "0") RAW_K("64", "4") RAW_K("128", "8") RAW_K("192", "12"),
                      FETCH_AHEAD "addq $16, %[a]\n\taddq $16, %[a3]\n\t", RAW_K("0", "0"), "addq $4, %[a]\n\taddq $4, %[a3]\n\t")
                     OPERANDS);
  } else {
    asm volatile(LOOP(STRIP_K("0", "0") STRIP_K("64", "24") STRIP_K("128", "48") STRIP_K("192", "72"),
                      FETCH_AHEAD "addq $96, %[a]\n\t", STRIP_K("0", "0"), "addq $24, %[a]\n\t") OPERANDS);
  }
  finish_row(step, 0, c00, c01);
  finish_row(step, 1, c10, c11);
  finish_row(step, 2, c20, c21);
  finish_row(step, 3, c30, c31);
  finish_row(step, 4, c40, c41);
  finish_row(step, 5, c50, c51);
}

}  // namespace lockstep::ops::cpu
