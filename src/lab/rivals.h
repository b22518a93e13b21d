#pragma once

// Products of other libraries, to be measured beside ours. Nothing that trains uses them.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/dtype.h"

namespace lockstep::lab {

/// C [m, n] (+)= op(A) op(B), all dense and row-major. A is [m, k], or [k, m] when transposed. B is [k, n], or [n, k] when
/// transposed.
struct ProductShape {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed, accumulate;
  DType type = DType::f32;  ///< f32 or bf16 for all three matrices; an accumulating C is f32
};

class Rival {
 public:
  virtual ~Rival() = default;
  /// Name and version.
  virtual std::string name() const = 0;
  /// What makes the library slower here than it could be; empty: nothing.
  virtual std::string note() const { return {}; }
  /// A call that computes the product once. Empty where the library has none for this type on this machine. The buffers must
  /// outlive the call.
  virtual std::function<void()> prepare(const ProductShape& shape, void* a, void* b, void* c) = 0;
};

/// oneDNN, plain matmul calls on `threads` threads.
std::unique_ptr<Rival> open_onednn(int threads);
/// OpenBLAS as it is installed (libopenblas.so.0, opened now); null where it is absent. Where it does not know the processor and
/// OPENBLAS_CORETYPE is not set, it is told the processor's kind.
std::unique_ptr<Rival> open_openblas(int threads);

}  // namespace lockstep::lab
