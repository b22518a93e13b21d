// What Highway's headers call of its library: which of the instruction sets that cmake/Compiler.cmake leaves this processor has,
// which of them dispatch takes, and the end of an assertion.
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdio>
#include <cstdlib>

namespace hwy {

int64_t SupportedTargets() {
  const int64_t avx2 = __builtin_cpu_supports("x86-64-v3") != 0 ? HWY_AVX2 : 0;
  const int64_t avx512 = __builtin_cpu_supports("x86-64-v4") != 0 ? HWY_AVX3 : 0;
  return avx512 | avx2 | HWY_STATIC_TARGET;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

void Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "Highway, %s:%d: %s\n", file, line, format);
  std::abort();
}

}  // namespace hwy
