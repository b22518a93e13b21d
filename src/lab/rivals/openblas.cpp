#include <dlfcn.h>

#include "base/checked.h"
#include "lab/rivals/rival.h"

namespace lockstep::lab {
namespace {

// The C interface of BLAS: row-major is 101, no transposition 111, transposition 112.
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda,
                       const float* b, int ldb, float beta, float* c, int ldc);

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

class OpenBlas final : public Rival {
 public:
  OpenBlas(void* library, Sgemm sgemm, int threads) : library_(library), sgemm_(sgemm) {
    if (const auto set = symbol<void (*)(int)>(library, "openblas_set_num_threads")) set(threads);
  }

  std::string name() const override {
    const auto config = symbol<char* (*)()>(library_, "openblas_get_config");
    const std::string text = config == nullptr ? "OpenBLAS" : config();
    return text.substr(0, text.find(' ', text.find(' ') + 1));
  }

  std::function<void()> prepare(const ProductShape& shape, void* a, void* b, void* c) override {
    if (shape.type != DType::f32) return {};
    const int m = narrow<int>(shape.m), n = narrow<int>(shape.n), k = narrow<int>(shape.k);
    return [sgemm = sgemm_, shape, m, n, k, a, b, c] {
      sgemm(101, shape.a_transposed ? 112 : 111, shape.b_transposed ? 112 : 111, m, n, k, 1.0F, static_cast<const float*>(a),
            shape.a_transposed ? m : k, static_cast<const float*>(b), shape.b_transposed ? k : n, shape.accumulate ? 1.0F : 0.0F,
            static_cast<float*>(c), n);
    };
  }

 private:
  void* library_;  // stays open: its threads live until the program ends
  Sgemm sgemm_;
};

}  // namespace

std::unique_ptr<Rival> open_openblas(int threads) {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto sgemm = symbol<Sgemm>(library, "cblas_sgemm");
  return sgemm == nullptr ? nullptr : std::make_unique<OpenBlas>(library, sgemm, threads);
}

}  // namespace lockstep::lab
