// Another C library, as far as its functions round as they like: preloaded, each gives the neighbour of the true library's
// result. What decides a bit of what a run learns calls none of them.

#include <dlfcn.h>

#include <cmath>
#include <limits>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

template <class Float>
Float neighbour(Float x) {
  return std::nextafter(x, std::numeric_limits<Float>::infinity());
}

}  // namespace

#define OF_ONE(name)                                                                     \
  extern "C" double name(double x) { return neighbour(next<double(double)>(#name)(x)); } \
  extern "C" float name##f(float x) { return neighbour(next<float(float)>(#name "f")(x)); }
#define OF_TWO(name)                                                                                          \
  extern "C" double name(double x, double y) { return neighbour(next<double(double, double)>(#name)(x, y)); } \
  extern "C" float name##f(float x, float y) { return neighbour(next<float(float, float)>(#name "f")(x, y)); }

OF_ONE(exp)
OF_ONE(exp2)
OF_ONE(expm1)
OF_ONE(log)
OF_ONE(log2)
OF_ONE(log10)
OF_ONE(log1p) OF_ONE(sin) OF_ONE(cos) OF_ONE(tan) OF_ONE(tanh) OF_ONE(erf) OF_ONE(cbrt) OF_TWO(pow) OF_TWO(atan2) OF_TWO(hypot)
