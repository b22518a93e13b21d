#pragma once

// Tensors that a kernel over rows is given together; what they hold, the families' headers say. They stand here and not beside
// the kernels, which are compiled once for each instruction set.

#include <cstdint>

#include "ops/loss.h"
#include "ops/norm.h"
#include "tensor/tensor.h"

namespace lockstep::ops::cpu {

/// The tensors of Norm's forward pass.
struct NormTensors {
  const Tensor &n, &stats, &x, &gain, &bias, &residual;
  NormForm form;
};

/// The tensors of SplitNorm, named as in its functions; `out` is n or dx.
struct SplitNormTensors {
  Tensor x, out = {}, dn = {}, rstd = {}, gain = {}, sums = {}, d_gain = {};
  float features = 1, eps = 0;
  bool accumulate = false;
};

/// Logits of a part of the vocabulary.
struct PartLogits {
  const Tensor &logits, &targets;
  const VocabularyPart& part;
};

/// What all parts of a vocabulary say of each row.
struct PartSummaries {
  const double* values;
  std::int64_t parts;
};

/// Rows of tokens from `first_token` on, and of positions.
struct EmbeddingTables {
  const Tensor &tokens, &positions;
  std::int64_t first_token;
};

}  // namespace lockstep::ops::cpu
