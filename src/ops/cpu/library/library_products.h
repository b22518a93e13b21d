#pragma once

// The products of layers computed by the library, with our own epilogues. Not shape-invariant: the bits of a row may depend on
// the others' number (docs/numerics.md).

#include <cstdint>
#include <map>
#include <memory>

#include "device/memory.h"
#include "ops/cpu/library/library.h"
#include "ops/cpu/product/apart.h"
#include "ops/cpu/product/product.h"

namespace lockstep::ops::cpu {

class LibraryProducts {
 public:
  /// `ours` must outlive it and computes what the library lacks: operands of different types. Throws UserError when the
  /// build has no library.
  LibraryProducts(Product& ours, MemorySource& memory);

  /// As Product::run. Throws UserError when the library has no products of this type on this processor.
  void run(const ProductTask& task);
  std::int64_t workspace_bytes() const { return apart_.workspace_bytes(); }

 private:
  LibraryMatmul& matmul(const LibraryShape& shape);
  void multiply(const ProductTask& task);

  Product& ours_;
  std::unique_ptr<Library> library_;
  std::map<LibraryShape, std::unique_ptr<LibraryMatmul>> prepared_;
  FinishApart apart_;
};

}  // namespace lockstep::ops::cpu
