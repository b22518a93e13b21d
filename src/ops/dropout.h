#pragma once

// Dropout by counter-addressed masks (numerics.md section 1). Whether an element is kept is a function of seed, step, layer, site
// and (global sample number, position in the sample, index). It never depends on a rank, a shard or a thread. No mask is stored:
// the backward pass draws the same mask again. Kept elements are scaled by 1 / (1 - p). All tensors of a call are f32, or all are
// bf16.

#include <cstdint>

#include "ops/op_scope.h"
#include "ops/positions.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

enum class Site : std::uint8_t { embedding, attention_weights, attention_out, mlp_out };

/// Where a mask lives. Element (sample s, position t, index i) of the whole tensor draws word i % 4 of Philox4x32-10 with key
/// `key`. The counter's words are {i / 4, t, low 32 bits of (first_sample + s), high 32 bits of it}. An element is kept when its
/// word >= p * 2^32. Index i is the feature. For attention weights i is head * S + key. S is the run's block size, so that a
/// shorter call draws the same mask. A tensor that is a part of the whole says where it begins, so that it gets that part of the
/// whole's mask.
struct DropoutSite {
  float p = 0;                    ///< 0: no dropout
  std::uint32_t key[2] = {0, 0};  ///< from make_key
  std::int64_t first_sample = 0;  ///< global number of the tensor's sample 0
  Positions positions = {};  ///< of a sample's rows; attention weights leave it empty: their queries follow from the call's shape
  /// index of column 0: its feature or, for attention weights, S times the number of head 0 in the model
  std::int64_t first_index = 0;
  std::int64_t index_stride = 0;  ///< S for attention weights
};

/// The Philox key of (seed, step, layer, site).
void make_key(std::uint32_t (&key)[2], std::uint64_t seed, std::int64_t step, int layer, Site site);

class Dropout : public Family {
 public:
  explicit Dropout(OpObserver* observer) : Family("dropout", observer) {}
  /// y [B, C] = mask(x) / (1 - p) + residual; residual may be empty; y may be x or the residual.
  void forward(const Tensor& y, const Tensor& x, const DropoutSite& site, const Tensor& residual = {});
  /// dx = mask(dy) / (1 - p); dx may be dy.
  void backward(const Tensor& dx, const Tensor& dy, const DropoutSite& site);

 private:
  virtual void do_forward(const Tensor& y, const Tensor& x, const DropoutSite& site, const Tensor& residual) = 0;
  virtual void do_backward(const Tensor& dx, const Tensor& dy, const DropoutSite& site) = 0;
};

}  // namespace lockstep::ops
