#pragma once

// Which of a model's products fill a device badly, what to change, and what that is worth. Tiles and waves tell that
// (planner/waves). So does the rule that sizes should be multiples of 128 bytes for tensor cores (ml-engineering; Anthony et al.
// 2024, arXiv 2401.14489).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config.h"
#include "planner/block_work.h"
#include "planner/machine.h"
#include "planner/waves.h"

namespace lockstep::planner {

/// Elements of bf16 in 128 bytes.
inline constexpr std::int64_t kAlignedElements = 64;

/// The sizes that a model's products follow from.
struct ProductCase {
  arch::ModelConfig model;
  MicrobatchSize microbatch;
  int tensor = 1;  ///< ranks that divide each layer
};

/// A product [m, k] by [k, n] of the forward pass on one rank, `batch` of them at once.
struct ModelProduct {
  std::string_view name;
  std::int64_t m, k, n, batch, calls;  ///< calls: of a micro-batch

  /// The sizes among m, k and n that are no multiple of kAlignedElements: "n", "k, n"; empty: none.
  std::string misaligned() const;
};
/// The products qkv, scores, values, attention out, mlp up (with a gate: its product too), mlp down and logits. Parts that ranks
/// cannot divide evenly are rounded up.
std::vector<ModelProduct> forward_products(const ProductCase& of);

/// Seconds of forward_products() in bf16, and of both gradients of each. Attention's are products of whole heads.
double products_seconds(const ProductCase& of, const Machine& machine);

struct ProductChange {
  std::string setting;  ///< "model.vocab_size=50304"
  std::string reason;
  /// The speed after the change over the speed now, by tiles and waves, for the same tokens. Where the model's size changes, for
  /// the same FLOPs.
  double gain;
  bool aligns;  ///< whether it ends a misalignment, which has a gain of its own
};
/// Changes, the largest gain first. The machine has units.
std::vector<ProductChange> product_changes(const ProductCase& of, const Machine& machine);

}  // namespace lockstep::planner
