#pragma once

// Updates of weights on a flat range, one pass, clipping included.
// AdamW (Loshchilov & Hutter 2019, algorithm 2, as PyTorch writes it):
//   g' = clip * g;  p *= 1 - lr * decay;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
//   p -= lr / bc1 * m / (sqrt(v) / sqrt(bc2) + eps)
// Stochastic gradient descent (torch.optim.SGD without dampening or Nesterov's rule; b = 0 before the first step):
//   g' = clip * g + decay * p;  b = momentum * b + g';  p -= lr * b, or lr * g' where there is no b
// LARS (You, Gitman & Ginsburg 2017, algorithm 1), on a range of one tensor, whose `trust` is a ratio of its norms:
//   g' = clip * g + decay * p;  b = momentum * b + lr * trust * g';  p -= b, or lr * trust * g' where there is no b
// Muon's direction (Jordan et al. 2024, as torch.optim.Muon writes it), before it is made orthogonal:
//   g' = clip * g;  b = momentum * b + (1 - momentum) g';  d = (1 - momentum) g' + momentum * b

#include <array>
#include <cstdint>

#include "ops/op_scope.h"
#include "ops/step_scalars.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

struct AdamW {
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F;
  float weight_decay = 0.1F;
};

struct Sgd {
  float momentum = 0;
  float weight_decay = 0;
  bool clips = true;  ///< false: the gradient is taken as it is
};

struct Lars {
  float momentum = 0;
  float weight_decay = 0;
  float trust = 1;
};

/// Where stochastic rounding finds its random numbers. A bf16 value is rounded up with the probability of its distance from the
/// lower neighbour (Gupta et al. 2015), so that nothing is lost on average. Element e of the tensors is element g = global(e) of
/// a parameter, g < 2^34. Its 16-bit number for slot s of update u is half s % 2 of word(g + (s / 2) 2^34, u). The words are
/// those of the CounterRng with this key. Slots: a rule's own in their order, then weights_slot.
struct RandomRounding {
  static constexpr int weights_slot = 2;
  std::array<std::uint32_t, 2> key = {};
  std::uint64_t update = 0;
  /// The tensors are elements [skipped, ...) of a rectangle of the parameter. Its rows have `columns` elements and are `stride`
  /// apart.
  std::int64_t first = 0, columns = 1, stride = 1, skipped = 0;

  constexpr std::int64_t global(std::int64_t e) const {
    return first + (skipped + e) / columns * stride + (skipped + e) % columns;
  }
};

/// The tensors that a rule reads and writes: dense, all of one size. `weights` is f32 or bf16. f32 weights are a master copy:
/// `publish` gets their new values, in bf16 as Elementwise::split rounds them. `publish` may be empty, or the same as `weights`.
/// Empty `weights`: the master copy's halves are `publish`, bf16, and `low`, u16. `gradient` is f32.
struct AdamWTensors {
  Tensor weights, publish, gradient;
  Tensor exp_avg, exp_avg_sq;  ///< both f32 or both bf16
  Tensor low = {};
};

struct SgdTensors {
  Tensor weights, publish, gradient;  ///< as in AdamWTensors
  Tensor momentum_buffer;             ///< f32 or bf16; empty when momentum is 0
  Tensor low = {};
};

struct DirectionTensors {
  Tensor direction, gradient;  ///< f32
  Tensor momentum_buffer;      ///< f32 or bf16
};

class Update : public Family {
 public:
  explicit Update(OpObserver* observer) : Family("update", observer) {}
  /// Each bf16 value is rounded once, when it is stored, and the step is taken with the moments as they are stored. It is rounded
  /// to the nearest or, with `random` (of at least one row), stochastically. Published copies of f32 weights are always rounded
  /// to the nearest.
  void adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars, const RandomRounding* random = nullptr);
  /// Stochastic gradient descent; roundings as in adamw().
  void sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars, const RandomRounding* random = nullptr);
  /// LARS; roundings as in adamw().
  void lars(const SgdTensors& tensors, const Lars& rule, const StepScalars& scalars, const RandomRounding* random = nullptr);
  /// The first half of Muon: the momentum, then the direction, which follows from the momentum as it is stored. No weight
  /// changes. Where the step is not finite, nothing changes.
  void direction(const DirectionTensors& tensors, float momentum, const StepScalars& scalars,
                 const RandomRounding* random = nullptr);

 private:
  virtual void do_adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars,
                        const RandomRounding* random) = 0;
  virtual void do_sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars, const RandomRounding* random) = 0;
  virtual void do_lars(const SgdTensors& tensors, const Lars& rule, const StepScalars& scalars, const RandomRounding* random) = 0;
  virtual void do_direction(const DirectionTensors& tensors, float momentum, const StepScalars& scalars,
                            const RandomRounding* random) = 0;
};

}  // namespace lockstep::ops
