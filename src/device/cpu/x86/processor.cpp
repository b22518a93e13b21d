#include "device/cpu/processor.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xmmintrin.h>

namespace lockstep::cpu {
namespace {

// MXCSR: every exception masked, nearest even, denormals in and out are zeros.
constexpr std::uint32_t flushing = 0x1F80 | 0x8040;

// CPUID leaf 7, EDX: AMX-BF16 and AMX-TILE (Intel's manual, volume 2).
bool has_tiles() {
  constexpr unsigned both = 1U << 22U | 1U << 24U;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & both) == both;
}

// Linux gives a process the tiles' registers when it asks (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

std::string_view processor_kind() { return "x86-64 processor"; }

std::string_view vector_extensions() {
  if (multiplies_bf16_tiles()) return "AVX-512 with bf16 and AMX";
  if (__builtin_cpu_supports("avx512bf16") != 0) return "AVX-512 with bf16";
  if (__builtin_cpu_supports("avx512f") != 0) return "AVX-512";
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) return "AVX2 and FMA";
  return "neither AVX2 nor FMA";
}

bool multiplies_bf16_pairs() { return __builtin_cpu_supports("avx512bf16") != 0; }
bool multiplies_bf16_tiles() {
  static const bool can = multiplies_bf16_pairs() && has_tiles() && may_use_tiles();
  return can;
}
bool is_made_by_amd() { return __builtin_cpu_is("amd") != 0; }

std::uint64_t flush_denormals() {
  const std::uint32_t before = _mm_getcsr();
  _mm_setcsr(flushing);
  return before;
}

void restore_arithmetic(std::uint64_t before) { _mm_setcsr(static_cast<std::uint32_t>(before)); }

}  // namespace lockstep::cpu
