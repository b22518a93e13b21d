#include "device/cpu/processor.h"

#include <xmmintrin.h>

namespace lockstep::cpu {
namespace {

// MXCSR: every exception masked, nearest even, denormals in and out are zeros.
constexpr std::uint32_t flushing = 0x1F80 | 0x8040;

}  // namespace

std::string_view processor_kind() { return "x86-64 processor"; }

std::string_view vector_extensions() {
  if (__builtin_cpu_supports("avx512bf16") != 0) return "AVX-512 with bf16";
  if (__builtin_cpu_supports("avx512f") != 0) return "AVX-512";
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) return "AVX2 and FMA";
  return "neither AVX2 nor FMA";
}

bool multiplies_bf16_pairs() { return __builtin_cpu_supports("avx512bf16") != 0; }
bool is_made_by_amd() { return __builtin_cpu_is("amd") != 0; }

std::uint64_t flush_denormals() {
  const std::uint32_t before = _mm_getcsr();
  _mm_setcsr(flushing);
  return before;
}

void restore_arithmetic(std::uint64_t before) { _mm_setcsr(static_cast<std::uint32_t>(before)); }

}  // namespace lockstep::cpu
