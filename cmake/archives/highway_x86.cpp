// Which of the instruction sets that cmake/Compiler.cmake leaves this processor has.
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace hwy {

int64_t SupportedTargets() {
  const int64_t avx2 = __builtin_cpu_supports("x86-64-v3") != 0 ? HWY_AVX2 : 0;
  const int64_t avx512 = __builtin_cpu_supports("x86-64-v4") != 0 ? HWY_AVX3 : 0;
  return avx512 | avx2 | HWY_STATIC_TARGET;
}

}  // namespace hwy
