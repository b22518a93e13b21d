#pragma once

// RMSNorm (Zhang & Sennrich 2019) of rows whose features tensor ranks divide into parts. `n = x * rstd * gain`, where
// `rstd = 1 / sqrt(sum of squares / F + eps)`. Each part makes its sums; the caller adds them up and hands the whole sums back. B
// rows, C features of a part, F of all parts. The type of x, n, gain, dn and dx is one, f32 or bf16; sums, rstd and d_gain are
// f32. Sums inside a row use 16 fixed lanes, sums over rows fixed blocks of 64 (numerics.md section 3.2).

#include <cstdint>

#include "ops/op_scope.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

class SplitNorm : public Family {
 public:
  explicit SplitNorm(OpObserver* observer) : Family("split_norm", observer) {}
  /// sums [B] = the sum of squares of each row of x [B, C].
  void squares(const Tensor& sums, const Tensor& x);
  /// Makes n [B, C], which may be x, and rstd [B] for the backward pass. `sums` [B] are squares() summed over all F features.
  void forward(const Tensor& n, const Tensor& rstd, const Tensor& x, const Tensor& gain, const Tensor& sums,
               std::int64_t features, float eps);
  /// sums [B] = the sum of dn * gain * x * rstd over each row.
  void dots(const Tensor& sums, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain);
  /// d_gain [C] (+)= the sum of dn * x * rstd over the rows.
  void gain_gradient(const Tensor& d_gain, const Tensor& dn, const Tensor& x, const Tensor& rstd, bool accumulate);
  /// dx [B, C] = rstd * (dn * gain - x * rstd * dots / F). dx may be dn. dots [B] are sums over all F features. Empty dots:
  /// another part subtracts their term.
  void backward(const Tensor& dx, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain, const Tensor& dots,
                std::int64_t features);

 private:
  virtual void do_squares(const Tensor& sums, const Tensor& x) = 0;
  virtual void do_forward(const Tensor& n, const Tensor& rstd, const Tensor& x, const Tensor& gain, const Tensor& sums,
                          std::int64_t features, float eps) = 0;
  virtual void do_dots(const Tensor& sums, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain) = 0;
  virtual void do_gain_gradient(const Tensor& d_gain, const Tensor& dn, const Tensor& x, const Tensor& rstd, bool accumulate) = 0;
  virtual void do_backward(const Tensor& dx, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain,
                           const Tensor& dots, std::int64_t features) = 0;
};

}  // namespace lockstep::ops
