#include "device/cpu/processor.h"

namespace lockstep::cpu {
namespace {

// FPCR: no exception is trapped, nearest even, denormals in and out are zeros.
constexpr std::uint64_t flushing = std::uint64_t{1} << 24;

void set_arithmetic(std::uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control) : "memory"); }

}  // namespace

std::string_view processor_kind() { return "aarch64 processor"; }
std::string_view vector_extensions() { return "NEON"; }
bool multiplies_bf16_pairs() { return false; }
bool multiplies_bf16_tiles() { return false; }
bool is_made_by_amd() { return false; }

std::uint64_t flush_denormals() {
  std::uint64_t before = 0;
  asm volatile("mrs %0, fpcr" : "=r"(before) : : "memory");
  set_arithmetic(flushing);
  return before;
}

void restore_arithmetic(std::uint64_t before) { set_arithmetic(before); }

}  // namespace lockstep::cpu
