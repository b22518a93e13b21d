#pragma once

// Rotary positions (Su et al. 2021), as Llama has them: features i and i + D/2 of a head are a pair, turned by the angle of
// its position. B samples, T positions, H heads, D head size, P positions that have angles.

#include "tensor/tensor.h"

namespace lockstep::ops {

/// Which positions the rows have, and which way they turn.
struct RotaryPlace {
  std::int64_t positions = 0;       ///< T: rows per sample
  std::int64_t first_position = 0;  ///< of row 0 of every sample
  bool inverse = false;             ///< turn back: the gradient's way
};

class Rotary {
 public:
  virtual ~Rotary() = default;
  /// x [B*T, H*D] in place, f32 or bf16; rows may be strided. angles [P, D] f32, dense: row p has the cosines of position p's D/2
  /// angles, then their sines. A pair (a, b) becomes (a cos - b sin, b cos + a sin).
  void rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place);

 private:
  virtual void do_rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place) = 0;
};

}  // namespace lockstep::ops
