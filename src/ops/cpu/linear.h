#pragma once

// The layers' products on the CPU.

#include <memory>

#include "device/stream.h"
#include "ops/cpu/library/library_products.h"
#include "ops/cpu/plain/plain_products.h"
#include "ops/cpu/product/apart.h"
#include "ops/cpu/product/grid_product.h"
#include "ops/cpu/product/product.h"
#include "ops/linear.h"

namespace lockstep::ops::cpu {

/// Who computes a layer's products.
struct LinearProducts {
  Product& ours;
  LibraryProducts* library = nullptr;  ///< in place of ours
  PlainProducts* plain = nullptr;      ///< in place of ours
  GridProduct* grids = nullptr;        ///< computes calls that have a grid; null: no call has one
  FinishApart* apart = nullptr;        ///< applies epilogues behind a product; null: they are applied while a tile is in cache
};

/// `observer` (null: none) hears of its ops. All arguments must outlive it. The workspace is that of the products.
std::unique_ptr<Linear> make_linear(const LinearProducts& products, Stream& stream, OpObserver* observer);

}  // namespace lockstep::ops::cpu
