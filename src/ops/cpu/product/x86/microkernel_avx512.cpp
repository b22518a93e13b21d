#include "ops/cpu/product/microkernel.h"

// `op` adds a product: vfmadd231ps of floats, or vdpbf16ps of words of two bf16 (product/bf16_way.h). Both have the same
// registers. Sums of row i: zmm(4 + 2 i) and zmm(5 + 2 i). A block's row of B: zmm0, zmm1. READ_TWICE reads A's element inside
// both multiply-adds; ROW broadcasts it first, to zmm2 and zmm3 in turn. READ_TWICE needs one instruction less, which counts
// where a second hardware thread shares the core's rate of issue. Loads would bound a tile whose rows are all read twice.
#define ROW(op, address, factor, low, high)                                                                                  \
  "vbroadcastss " address ", %%zmm" factor "\n\t" op " %%zmm0, %%zmm" factor ", %%zmm" low "\n\t" op " %%zmm1, %%zmm" factor \
  ", %%zmm" high "\n\t"
#define READ_TWICE(op, address, low, high) \
  op " " address "%{1to16%}, %%zmm0, %%zmm" low "\n\t" op " " address "%{1to16%}, %%zmm1, %%zmm" high "\n\t"
#define LOAD_B(at) "vmovaps " at "(%[b]), %%zmm0\n\tvmovaps 64+" at "(%[b]), %%zmm1\n\t"

// a as rows of a matrix (a_k = 1), `at` bytes further. a2, a4, ... a12: rows further down. An address with an index is an
// instruction of its own inside a multiply-add, so rows between them are broadcast.
#define RAW_K(op, b_at, at)                    \
  LOAD_B(b_at)                                 \
  READ_TWICE(op, at "(%[a])", "4", "5")        \
  ROW(op, at "(%[a],%[s])", "2", "6", "7")     \
  READ_TWICE(op, at "(%[a2])", "8", "9")       \
  ROW(op, at "(%[a2],%[s])", "3", "10", "11")  \
  READ_TWICE(op, at "(%[a4])", "12", "13")     \
  ROW(op, at "(%[a4],%[s])", "2", "14", "15")  \
  READ_TWICE(op, at "(%[a6])", "16", "17")     \
  ROW(op, at "(%[a6],%[s])", "3", "18", "19")  \
  READ_TWICE(op, at "(%[a8])", "20", "21")     \
  ROW(op, at "(%[a8],%[s])", "2", "22", "23")  \
  READ_TWICE(op, at "(%[a10])", "24", "25")    \
  ROW(op, at "(%[a10],%[s])", "3", "26", "27") \
  READ_TWICE(op, at "(%[a12])", "28", "29")    \
  ROW(op, at "(%[a12],%[s])", "2", "30", "31")
// a as columns of a matrix, or packed in strips of fourteen (a_row = 1): `at` bytes behind `base`.
#define COLUMNS_K(op, b_at, at, base)       \
  LOAD_B(b_at)                              \
  READ_TWICE(op, at base, "4", "5")         \
  ROW(op, "4+" at base, "2", "6", "7")      \
  READ_TWICE(op, "8+" at base, "8", "9")    \
  READ_TWICE(op, "12+" at base, "10", "11") \
  READ_TWICE(op, "16+" at base, "12", "13") \
  ROW(op, "20+" at base, "3", "14", "15")   \
  READ_TWICE(op, "24+" at base, "16", "17") \
  READ_TWICE(op, "28+" at base, "18", "19") \
  ROW(op, "32+" at base, "2", "20", "21")   \
  READ_TWICE(op, "36+" at base, "22", "23") \
  READ_TWICE(op, "40+" at base, "24", "25") \
  READ_TWICE(op, "44+" at base, "26", "27") \
  ROW(op, "48+" at base, "3", "28", "29")   \
  READ_TWICE(op, "52+" at base, "30", "31")

#define CLEAR(low, high) \
  "vpxord %%zmm" low ", %%zmm" low ", %%zmm" low "\n\tvpxord %%zmm" high ", %%zmm" high ", %%zmm" high "\n\t"
#define CLEAR_ALL   \
  CLEAR("4", "5")   \
  CLEAR("6", "7")   \
  CLEAR("8", "9")   \
  CLEAR("10", "11") \
  CLEAR("12", "13") \
  CLEAR("14", "15") \
  CLEAR("16", "17") \
  CLEAR("18", "19") CLEAR("20", "21") CLEAR("22", "23") CLEAR("24", "25") CLEAR("26", "27") CLEAR("28", "29") CLEAR("30", "31")

#define FETCH_AHEAD "prefetcht1 (%[ahead])\n\tprefetcht1 64(%[ahead])\n\taddq 32(%[ends]), %[ahead]\n\t"

#define ALL_BASES(bytes)                                                                      \
  "addq $" bytes ", %[a]\n\taddq $" bytes ", %[a2]\n\taddq $" bytes ", %[a4]\n\taddq $" bytes \
  ", %[a6]\n\t"                                                                               \
  "addq $" bytes ", %[a8]\n\taddq $" bytes ", %[a10]\n\taddq $" bytes ", %[a12]\n\t"

#define FOUR_COLUMNS                                           \
  "leaq (%[a],%[s],4), %[a]\n\tleaq (%[k1],%[s],4), %[k1]\n\t" \
  "leaq (%[k2],%[s],4), %[k2]\n\tleaq (%[k3],%[s],4), %[k3]\n\t"

#define LOOP(four_k, four_a, one_k, one_a)     \
  CLEAR_ALL                                    \
  "subq $4, %[k]\n\t"                          \
  "js 2f\n\t"                                  \
  ".p2align 5\n\t"                             \
  "1:\n\t" four_k "addq $512, %[b]\n\t" four_a \
  "subq $4, %[k]\n\t"                          \
  "jns 1b\n\t"                                 \
  "2:\n\t"                                     \
  "addq $4, %[k]\n\t"                          \
  "jz 4f\n\t"                                  \
  "3:\n\t" one_k "addq $128, %[b]\n\t" one_a   \
  "decq %[k]\n\t"                              \
  "jnz 3b\n\t"                                 \
  "4:\n\t"

// The loop is done with a and b: their registers walk through what is added and stored.
#define ADD_ROW(low, high) \
  "vaddps (%[a]), %%zmm" low ", %%zmm" low "\n\tvaddps 64(%[a]), %%zmm" high ", %%zmm" high "\n\taddq 8(%[ends]), %[a]\n\t"
#define STORE_ROW(low, high) "vmovups %%zmm" low ", (%[b])\n\tvmovups %%zmm" high ", 64(%[b])\n\taddq 24(%[ends]), %[b]\n\t"
// Past the caches: whole lines, which then need not be read before they are written.
#define STREAM_ROW(low, high) "vmovntps %%zmm" low ", (%[b])\n\tvmovntps %%zmm" high ", 64(%[b])\n\taddq 24(%[ends]), %[b]\n\t"
#define ALL_ROWS(row)                                                                                                       \
  row("4", "5") row("6", "7") row("8", "9") row("10", "11") row("12", "13") row("14", "15") row("16", "17") row("18", "19") \
      row("20", "21") row("22", "23") row("24", "25") row("26", "27") row("28", "29") row("30", "31")
#define FINISH \
  "movq (%[ends]), %[a]\n\tmovq 16(%[ends]), %[b]\n\ttestq %[a], %[a]\n\t" \
  "jz 5f\n\t" ALL_ROWS(ADD_ROW) "5:\n\tcmpq $0, 40(%[ends])\n\t" \
  "jne 6f\n\t" ALL_ROWS(STORE_ROW) "jmp 7f\n\t6:\n\t" ALL_ROWS(STREAM_ROW) "7:\n\t"

#define CLOBBERED                                                                                                              \
  "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11", "zmm12", "zmm13", "zmm14", \
      "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22", "zmm23", "zmm24", "zmm25", "zmm26", "zmm27",     \
      "zmm28", "zmm29", "zmm30", "zmm31", "cc", "memory"
#define TILE [b] "+r"(b), [k] "+r"(k), [a] "+r"(a), [ahead] "+r"(ahead)

namespace lockstep::ops::cpu {
namespace {

// What the assembly reads from memory, by these offsets: registers are for rows. Steps in bytes.
struct Ends {
  const float* from;        // 0
  std::int64_t from_step;   // 8
  float* to;                // 16
  std::int64_t to_step;     // 24
  std::int64_t ahead_step;  // 32
  std::int64_t stream;      // 40
};

// Once for every four floats of k, twice for every four words of bf16, of which a block of k has half as many.
#define FETCH_AT_FLOATS FETCH_AHEAD
#define FETCH_AT_PAIRS FETCH_AHEAD FETCH_AHEAD

#define MULTIPLY_ROWS(op, fetch)                                                                                    \
  asm volatile(LOOP(RAW_K(op, "0", "0") RAW_K(op, "128", "4") RAW_K(op, "256", "8") RAW_K(op, "384", "12"),         \
                    fetch ALL_BASES("16"), RAW_K(op, "0", "0"), ALL_BASES("4")) FINISH                              \
               : TILE, [a2] "+r"(a2), [a4] "+r"(a4), [a6] "+r"(a6), [a8] "+r"(a8), [a10] "+r"(a10), [a12] "+r"(a12) \
               : [ends] "r"(&ends), [s] "r"(s)                                                                      \
               : CLOBBERED)
#define MULTIPLY_STRIP(op, fetch)                                                                                                \
  asm volatile(LOOP(COLUMNS_K(op, "0", "0", "(%[a])") COLUMNS_K(op, "128", "56", "(%[a])") COLUMNS_K(op, "256", "112", "(%[a])") \
                        COLUMNS_K(op, "384", "168", "(%[a])"),                                                                   \
                    fetch "addq $224, %[a]\n\t", COLUMNS_K(op, "0", "0", "(%[a])"), "addq $56, %[a]\n\t") FINISH                 \
               : TILE                                                                                                            \
               : [ends] "r"(&ends)                                                                                               \
               : CLOBBERED)
#define MULTIPLY_COLUMNS(op, fetch)                                                                                             \
  asm volatile(LOOP(COLUMNS_K(op, "0", "0", "(%[a])") COLUMNS_K(op, "128", "0", "(%[k1])") COLUMNS_K(op, "256", "0", "(%[k2])") \
                        COLUMNS_K(op, "384", "0", "(%[k3])"),                                                                   \
                    fetch FOUR_COLUMNS, COLUMNS_K(op, "0", "0", "(%[a])"), "addq %[s], %[a]\n\t") FINISH                        \
               : TILE, [k1] "+r"(k1), [k2] "+r"(k2), [k3] "+r"(k3)                                                              \
               : [ends] "r"(&ends), [s] "r"(s)                                                                                  \
               : CLOBBERED)

template <bool pairs>
__attribute__((target("avx512f,prfchw"))) void multiply(const TileStep& step) {
  const float *a = step.a, *b = step.b;
  const void* ahead = step.ahead != nullptr ? step.ahead : a;
  std::int64_t k = step.k;
  const bool lines = reinterpret_cast<std::uintptr_t>(step.to) % 64 == 0 && step.to_stride % 16 == 0,
             stream = step.stream && lines;
  const Ends ends{step.from,     step.from_stride * 4, step.to, step.to_stride * 4, step.ahead != nullptr ? step.ahead_stride : 0,
                  stream ? 1 : 0};
  if (step.from != nullptr)
    for (int row = 0; row < 14; ++row) {
      __builtin_prefetch(step.from + row * step.from_stride);
      __builtin_prefetch(step.from + row * step.from_stride + 16);
    }
  if (step.to != step.from && !stream)
    for (int row = 0; row < 14; ++row) {
      __builtin_prefetch(step.to + row * step.to_stride, 1);
      __builtin_prefetch(step.to + row * step.to_stride + 16, 1);
    }
  if (step.a_k == 1) {
    const std::int64_t two = 2 * step.a_row, s = step.a_row * 4;
    const float *a2 = a + two, *a4 = a2 + two, *a6 = a4 + two, *a8 = a6 + two, *a10 = a8 + two, *a12 = a10 + two;
    if constexpr (pairs) {
      MULTIPLY_ROWS("vdpbf16ps", FETCH_AT_PAIRS);
    } else {
      MULTIPLY_ROWS("vfmadd231ps", FETCH_AT_FLOATS);
    }
  } else if (step.a_k == 14) {
    if constexpr (pairs) {
      MULTIPLY_STRIP("vdpbf16ps", FETCH_AT_PAIRS);
    } else {
      MULTIPLY_STRIP("vfmadd231ps", FETCH_AT_FLOATS);
    }
  } else if constexpr (!pairs) {  // words of bf16 columns have to be made
    const std::int64_t s = step.a_k * 4;
    const float *k1 = a + step.a_k, *k2 = k1 + step.a_k, *k3 = k2 + step.a_k;
    MULTIPLY_COLUMNS("vfmadd231ps", FETCH_AT_FLOATS);
  }
}

}  // namespace

void tile_14x32_avx512(const TileStep& step) { multiply<false>(step); }
void tile_14x32_pairs(const TileStep& step) { multiply<true>(step); }

}  // namespace lockstep::ops::cpu
