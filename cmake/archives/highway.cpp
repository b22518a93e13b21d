// What Highway's headers call of its library: which of its targets dispatch takes, and the end of an assertion.
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdio>
#include <cstdlib>

namespace hwy {

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

void Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "Highway, %s:%d: %s\n", file, line, format);
  std::abort();
}

}  // namespace hwy
