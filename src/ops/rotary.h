#pragma once

// Rotary positions (Su et al. 2021), as Llama has them: features i and i + D/2 of a head are a pair, turned by the angle of
// its position. B samples, T positions, H heads, D head size, P positions that have angles.

#include "ops/op_scope.h"
#include "ops/positions.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

/// Which positions the rows have, and which way they turn.
struct RotaryPlace {
  Positions positions = {};  ///< of a sample's T rows
  bool inverse = false;      ///< turn back: the gradient's way
  /// document starts (ops/positions.h) or empty; a row turns by its position in its document, which has angles
  Tensor starts = {};
};

class Rotary : public Family {
 public:
  explicit Rotary(OpObserver* observer) : Family("rotary", observer) {}
  /// Turns x [B*T, H*D], f32 or bf16, in place; rows may be strided. `angles` [P, D] is f32 and dense. Its row p has the cosines
  /// of position p's D/2 angles, then their sines. A pair (a, b) becomes (a cos - b sin, b cos + a sin).
  void rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place);

 private:
  virtual void do_rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place) = 0;
};

}  // namespace lockstep::ops
