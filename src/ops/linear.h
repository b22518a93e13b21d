#pragma once

// Products of a layer y = x w^T + b. B tokens, K in-features, N out-features; weights are [N, K] as in PyTorch. Every element's
// additions have a fixed order (numerics.md section 3.1). Its value never depends on the number of rows, on slicing, on threads
// or, from AVX2 on, on the instruction set. All tensors of a call are f32 or all are bf16, but gradients of weights are f32. A
// bf16 product is the f32 product of the widened operands, rounded where it is stored. Its additions may have another order
// (section 4.1). Without an epilogue y (logits) may be f32 beside bf16. So may dx, which ranks add up before it is rounded. The
// dy of both backward products may be f32, too.

#include <cstddef>

#include "ops/op_scope.h"
#include "ops/sum_grid.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

enum class Activation : std::uint8_t { none, gelu, gelu_tanh, relu, silu };
inline constexpr std::size_t activation_count = 5;

/// A product may be made in parts, one after the other, each over a part of its in-features (for dx: its out-features). Between
/// them lie `sums`, f32 [B, N] (for dx: [B, K]). Every part but the last stores its result there. Every part but the first goes
/// on from there. Where the parts end at multiples of 256, the result has the bits of one call. The sums may be y (dx) itself
/// where it is f32, unless y is the residual. They must be y (dx) in a part without epilogue that stores f32.
///
/// The epilogue is done while y is still in cache, in this order: + bias, store pre_activation, activation, + residual. With a
/// gate the activation is the gate's: y = activation(gate) * y (SwiGLU: Shazeer 2020). In bf16 the input of an activation or a
/// gate is rounded first, whether pre_activation keeps it or not.
struct Epilogue {
  Tensor bias = {};            ///< [N] or empty
  Tensor pre_activation = {};  ///< [B, N] or empty: where y before the activation is kept for the backward pass
  Activation activation = Activation::none;
  Tensor residual = {};  ///< [B, N] or empty; may be y itself
  Tensor gate = {};      ///< [B, N] or empty
  Tensor sums = {};      ///< [B, N] f32 or empty: the parts before this one
  /// The ranges of in-features by which y is summed. Null: in blocks of 256. Prepacked weights take none.
  const SumGrid* grid = nullptr;
};

/// What is done with dx while it is still in cache: dx *= activation'(pre_activation). With a gate:
/// d_gate = dx * pre_activation * activation'(gate), then dx *= activation(gate).
struct InputEpilogue {
  Tensor pre_activation = {};  ///< [B, K] or empty
  Activation activation = Activation::none;
  /// [B, K] or empty: gets what the forward pass made of pre_activation (and the gate), for the weight gradient. It may be
  /// pre_activation itself.
  Tensor activated = {};
  Tensor gate = {};    ///< [B, K] or empty
  Tensor d_gate = {};  ///< [B, K], where there is a gate; may be the gate itself
  Tensor sums = {};    ///< [B, K] f32 or empty: the parts before this one
  /// The ranges of out-features by which dx is summed; out-features in no range are left out. Null: in blocks of 256.
  const SumGrid* grid = nullptr;
};

class Linear : public Family {
 public:
  explicit Linear(OpObserver* observer) : Family("linear", observer) {}
  /// y [B, N] = epilogue(x [B, K] w^T). Rows may be strided; w may be prepacked.
  void forward(const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue = {});
  /// Writes w, dense, to `to` [N, K] in the order in which products with few rows (a token at a time) read it fastest. Returns
  /// `to` in tiles, which is for forward products of these kernels alone, with the same bits. `to` may be w itself. These kernels
  /// may have no such order, or none for this K (a multiple of 8) or N. Then nothing is done, and w is returned.
  Tensor prepack(const Tensor& w, const Tensor& to);
  /// dx [B, K] = epilogue(dy [B, N] w). Rows may be strided.
  void backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue = {});
  /// dw [N, K] (+)= dy^T x over B tokens in blocks of 256, each added onto dw in order. The sum over tokens of dy goes to db [N]
  /// (+)= in blocks of 64 rows, added in order. It is left out where db is empty. Both are f32. With `grid`, each of its ranges
  /// of tokens is summed so, and the sum of the ranges is stored or added.
  void backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate,
                       const SumGrid* grid = nullptr);

 private:
  virtual void do_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Epilogue& epilogue) = 0;
  /// Whether these kernels have an order of tiles, so that prepack() can do something.
  virtual bool packs() const { return false; }
  /// False: there is no order of tiles for this matrix, and nothing was done.
  virtual bool do_prepack(const Tensor& /*w*/, const Tensor& /*to*/) { return false; }
  virtual void do_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const InputEpilogue& epilogue) = 0;
  virtual void do_backward_weight(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x, bool accumulate,
                                  const SumGrid* grid) = 0;
};

}  // namespace lockstep::ops
