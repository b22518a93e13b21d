#pragma once

// Layer normalisation (Ba et al. 2016): n = (x - mean) * rstd * gain + bias, row by row; rstd = 1 / sqrt(var + eps). RMSNorm
// (Zhang & Sennrich 2019) leaves the mean alone: mean is 0 and var is the mean of the squares. A third form is RMSNorm with 1 +
// gain in the place of gain (Gemma, Mesnard et al. 2024). B rows, C features; x, n, gain, bias, residual and the gradients dx, dn
// are f32 or bf16, all the same. Sums inside a row use 16 fixed lanes, sums over rows fixed blocks of 64 (numerics.md section
// 3.2).

#include <cstdint>

#include "ops/op_scope.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

/// What a backward pass reads and writes.
struct NormBackward {
  Tensor dx;              ///< [B, C] = residual + the gradient of the norm for dn; may be dn
  Tensor n;               ///< [B, C] or empty: gets the norm's result again, for weight gradients
  Tensor d_gain, d_bias;  ///< [C] f32, set or, with `accumulate`, added to; d_bias or both may be empty
  Tensor dn;              ///< [B, C]
  Tensor x, stats;        ///< forward()'s input, and the statistics that it kept
  Tensor gain, bias;
  Tensor residual;  ///< [B, C] or empty; may be dx
  bool accumulate = false;
};

/// layer: LayerNorm. rms: RMSNorm, whose mean in stats is 0. rms_unit_offset: RMSNorm that multiplies by 1 + gain.
enum class NormForm : std::uint8_t { layer, rms, rms_unit_offset };

class Norm : public Family {
 public:
  explicit Norm(OpObserver* observer) : Family("norm", observer) {}
  /// n [B, C]; stats [B, 2] f32 (mean, rstd) are kept for the backward pass. bias may be empty. A residual [B, C] is added to n,
  /// and may be n.
  void forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
               const Tensor& residual = {});
  /// Makes n again from x and its stats, to the bit. Recomputation calls it.
  void apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias);
  void backward(const NormBackward& call);

 private:
  virtual void do_forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias,
                          float eps, const Tensor& residual) = 0;
  virtual void do_apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) = 0;
  virtual void do_backward(const NormBackward& call) = 0;
};

}  // namespace lockstep::ops
