#pragma once

// oneDNN behind an interface of ours: single matrix products, prepared and run. It has an order of additions of its own, which
// may depend on the shape. A plugin (io/plugin.h), which a machine may lack, has oneDNN.

#include <cstdint>
#include <memory>
#include <string>

#include "base/dtype.h"

namespace lockstep::ops::cpu {

/// C [m, n] (+)= op(A) op(B), row-major; rows are `stride` elements apart. A is [m, k] or, transposed, [k, m]; B is [k, n] or,
/// transposed, [n, k].
struct LibraryShape {
  std::int64_t m, n, k;
  std::int64_t a_stride, b_stride, c_stride;
  bool a_transposed, b_transposed, accumulate;
  DType type;  ///< of A and B: f32 or bf16
  DType c_type = DType::f32;
  auto operator<=>(const LibraryShape&) const = default;
};

class LibraryMatmul {
 public:
  virtual ~LibraryMatmul() = default;
  virtual void run(const void* a, const void* b, void* c) = 0;
};

class Library {
 public:
  virtual ~Library() = default;
  /// Name and version.
  virtual std::string name() const = 0;
  /// Null when the library has no such product on this processor. Must not outlive the library.
  virtual std::unique_ptr<LibraryMatmul> prepare(const LibraryShape& shape) = 0;
};

/// The interface that oneDNN's plugin hands over.
class LibraryPlugin {
 public:
  virtual ~LibraryPlugin() = default;
  virtual std::unique_ptr<Library> open(int threads) = 0;
};

/// Whether this machine has the library's plugin.
bool has_library();
/// Opens the library for products on `threads` threads, called from this thread. The library has threads of its own. Throws
/// UserError when the machine lacks it.
std::unique_ptr<Library> open_library(int threads);
/// Whether the library has products of this type on this processor. Throws UserError when the machine lacks the library.
bool library_has(DType type);

}  // namespace lockstep::ops::cpu
