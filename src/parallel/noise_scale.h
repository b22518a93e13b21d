#pragma once

// How much of a step's gradient is noise of its samples: the simple noise scale of McCandlish et al. 2018 ("An empirical model of
// large-batch training", appendix A.1). With gradients of a small batch b and of a large one B, which has b in it,
//   |G|^2 ~ (B |G_B|^2 - b |G_b|^2) / (B - b),  S ~ (|G_b|^2 - |G_B|^2) / (1/b - 1/B),  noise scale = S / |G|^2.
// Here B is the step. b is a micro-batch that is the first of its rank; the squares of all of these are averaged. Estimates of
// one step are rough, and |G|^2 may be below zero. So means over many steps are divided by each other.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "parallel/training_state.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Sums over steps of the estimates.
struct GradientNoise {
  std::int64_t steps = 0;
  double square = 0;    ///< squared norm of the gradient without noise: |G|^2
  double variance = 0;  ///< variance of one token's gradient, summed over the weights: S
  /// The noise scale in tokens; none where noise hides the gradient.
  std::optional<double> scale() const { return square > 0 && variance >= 0 ? std::optional(variance / square) : std::nullopt; }
  GradientNoise& operator+=(const GradientNoise& other);
};

struct NoiseMemory {
  void declare(Arena& workspace, const std::vector<layout::Unit>& units);
  bool any() const { return squares.device.shape.rank() > 0; }

  Mirror squares;                   ///< [runs of all units' gradients] f64
  std::vector<std::int64_t> first;  ///< by unit: the number of its first run
};

/// Measures the noise of a step's gradient. The gradient of a tied matrix is left out: it comes in two parts, which are added at
/// the end.
class NoiseMeter {
 public:
  /// The step has `microbatches` over all ranks, 2 at least. `first` of them are the first of ranks that read different samples.
  struct Sizes {
    int microbatches = 2, first = 1;
    UnitIndex tied{-1};
  };
  /// `group`: all ranks of the run. The references outlive this.
  NoiseMeter(const NoiseMemory& memory, comm::Communicator& group, const Sizes& sizes)
      : memory_(memory), group_(group), sizes_(sizes) {}

  void begin() { taken_.clear(); }
  /// Takes what this rank has of a unit's gradient of its first micro-batch, which is whole where no layer is divided. It is not
  /// waited for.
  void add_first(ops::Ops& ops, UnitIndex unit, const layout::Unit& of, const Tensor& gradient);
  /// The noise of a step, by its gradient in `state`: the gradient of a mean over `targets` tokens. Collective.
  GradientNoise measure(ops::Ops& ops, TrainingState& state, std::int64_t targets);

 private:
  /// Takes the squares of the elements in `runs`, and gives their places. `gradient` begins with element `first` of the unit.
  layout::Range take(ops::Ops& ops, std::int64_t place, const std::vector<layout::Range>& runs, const Tensor& gradient,
                     std::int64_t first);
  /// The sum of the squares in these places, added in their order.
  double sum_of(std::span<const layout::Range> places) const;

  const NoiseMemory& memory_;
  comm::Communicator& group_;
  Sizes sizes_;
  std::vector<layout::Range> taken_;  ///< places of the first micro-batches' squares
};

}  // namespace lockstep::parallel
