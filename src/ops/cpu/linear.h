#pragma once

// The layers' products on the CPU.

#include <memory>

#include "ops/cpu/library/library_products.h"
#include "ops/cpu/product/product.h"
#include "ops/linear.h"

namespace lockstep::ops::cpu {

/// Computes by the library where there is one (null: none) and tells `observer` (null: none). All must outlive it. Workspace:
/// theirs.
std::unique_ptr<Linear> make_linear(Product& product, LibraryProducts* library, Stream& stream, OpObserver* observer);

}  // namespace lockstep::ops::cpu
