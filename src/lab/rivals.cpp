#include "lab/rivals.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "ops/cpu/library/library.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {
namespace {

class OneDnn final : public Rival {
 public:
  explicit OneDnn(int threads) : library_(ops::cpu::open_library(threads)) {}

  std::string name() const override { return library_->name(); }

  std::function<void()> prepare(const ProductShape& shape, void* a, void* b, void* c) override {
    const std::shared_ptr<ops::cpu::LibraryMatmul> product =
        library_->prepare({.m = shape.m,
                           .n = shape.n,
                           .k = shape.k,
                           .a_stride = shape.a_transposed ? shape.m : shape.k,
                           .b_stride = shape.b_transposed ? shape.k : shape.n,
                           .c_stride = shape.n,
                           .a_transposed = shape.a_transposed,
                           .b_transposed = shape.b_transposed,
                           .accumulate = shape.accumulate,
                           .type = shape.type,
                           .c_type = shape.accumulate ? DType::f32 : shape.type});
    if (!product) return {};
    return [product, a, b, c] { product->run(a, b, c); };
  }

 private:
  std::unique_ptr<ops::cpu::Library> library_;
};

// The C interface of BLAS: row-major is 101, no transposition 111, transposition 112.
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda,
                       const float* b, int ldb, float beta, float* c, int ldc);

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// OpenBLAS's cores with kernels for AVX2 or AVX-512. An unknown processor gets other kernels, at a fifth of the speed.
constexpr std::array<std::string_view, 3> wide_cores{"SkylakeX", "Cooperlake", "SapphireRapids"};
constexpr std::array<std::string_view, 3> narrow_cores{"Haswell", "Zen", "Excavator"};

// The core to name for this processor; null: there is nothing to gain.
const char* core_for(std::string_view taken) {
  const bool is_wide = std::ranges::find(wide_cores, taken) != wide_cores.end();
  const bool is_narrow = std::ranges::find(narrow_cores, taken) != narrow_cores.end();
  const std::vector<ops::Isa> isas = ops::available_isas();
  const auto has = [&](ops::Isa isa) { return std::ranges::find(isas, isa) != isas.end(); };
  if (has(ops::Isa::avx512)) return is_wide ? nullptr : "SKYLAKEX";
  return !has(ops::Isa::avx2) || is_narrow || is_wide ? nullptr : "HASWELL";
}

std::string core_of(void* library) {
  const auto name = symbol<char* (*)()>(library, "openblas_get_corename");
  return name == nullptr ? "" : name();
}

// Opens OpenBLAS with kernels for this processor. The library reads the name of the core when it is loaded.
void* open_for_this_processor() {
  constexpr const char* file = "libopenblas.so.0";
  constexpr const char* variable = "OPENBLAS_CORETYPE";
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || std::getenv(variable) != nullptr) return library;
  const char* core = core_for(core_of(library));
  if (core == nullptr || dlclose(library) != 0) return library;
  setenv(variable, core, 1);
  library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  unsetenv(variable);
  return library;
}

class OpenBlas final : public Rival {
 public:
  OpenBlas(void* library, Sgemm sgemm, int threads) : library_(library), sgemm_(sgemm) {
    if (const auto set = symbol<void (*)(int)>(library, "openblas_set_num_threads")) set(threads);
  }

  std::string name() const override {
    const auto config = symbol<char* (*)()>(library_, "openblas_get_config");
    const std::string text = config == nullptr ? "OpenBLAS" : config();
    return fmt::format("{} ({})", text.substr(0, text.find(' ', text.find(' ') + 1)), core_of(library_));
  }

  std::string note() const override {
    const std::string core = core_of(library_);
    const char* better = core_for(core);
    if (better == nullptr) return {};
    const char* set = std::getenv("OPENBLAS_CORETYPE");
    return fmt::format(
        "OpenBLAS runs as on a {}{}, which is slower than this processor: set OPENBLAS_CORETYPE={} and measure again", core,
        set == nullptr ? "" : fmt::format(" (OPENBLAS_CORETYPE={})", set), better);
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

std::unique_ptr<Rival> open_onednn(int threads) { return ops::cpu::has_library() ? std::make_unique<OneDnn>(threads) : nullptr; }

std::unique_ptr<Rival> open_openblas(int threads) {
  void* library = open_for_this_processor();
  if (library == nullptr) return nullptr;
  const auto sgemm = symbol<Sgemm>(library, "cblas_sgemm");
  return sgemm == nullptr ? nullptr : std::make_unique<OpenBlas>(library, sgemm, threads);
}

}  // namespace lockstep::lab
