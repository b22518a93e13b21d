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

/// Who computes.
struct LinearProducts {
  Product& ours;
  LibraryProducts* library = nullptr;  ///< in place of ours
  PlainProducts* plain = nullptr;      ///< in place of ours
  GridProduct* grids = nullptr;        ///< where a call has a grid; null: none has
  FinishApart* apart = nullptr;        ///< what is done with products is done behind them; null: while a tile is in cache
};

/// Tells `observer` (null: none). All must outlive it. Workspace: the products'.
std::unique_ptr<Linear> make_linear(const LinearProducts& products, Stream& stream, OpObserver* observer);

}  // namespace lockstep::ops::cpu
