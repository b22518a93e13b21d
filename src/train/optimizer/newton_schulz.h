#pragma once

// Brings a matrix near the closest one with orthonormal rows or columns. It takes five iterations of the quintic of Jordan et al.
// 2024 ("Muon: An optimizer for hidden layers in neural networks"), with a = 3.4445, b = -4.7750, c = 2.0315:
//   X <- a X + (b G + c G^2) X with G = X X^T; tall matrices: X <- a X + X (b G + c G^2) with G = X^T X
// It begins with X over its Frobenius norm, and takes every singular value to between about 0.7 and 1.2. Products are those of
// ops/linear in fp32. Our own kernels make equal bits on any number of threads.

#include "ops/ops.h"
#include "tensor/arena.h"

namespace lockstep::train {

struct NewtonSchulzMemory {
  /// For matrices of at most `elements` elements, with at most `least` rows or at most `least` columns.
  void declare(Arena& workspace, std::int64_t elements, std::int64_t least);

  Tensor next;           ///< [elements] f32
  Tensor gram, squared;  ///< [least, least] f32
  Mirror squares;        ///< [1] f64
};

/// matrix [rows, columns], f32 and dense = the result of the iterations, times `scale`. A matrix of zeros stays as it is.
void orthogonalise(ops::Ops& ops, const NewtonSchulzMemory& memory, const Tensor& matrix, float scale);

}  // namespace lockstep::train
