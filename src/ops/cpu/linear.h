#pragma once

// The layers' products on the CPU.

#include <memory>

#include "ops/cpu/product/product.h"
#include "ops/linear.h"

namespace lockstep::ops::cpu {

/// `product` and `stream` must outlive it. Workspace: the product's.
std::unique_ptr<Linear> make_linear(Product& product, Stream& stream);

}  // namespace lockstep::ops::cpu
