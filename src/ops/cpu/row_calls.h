#pragma once

// Tensors that a kernel over rows takes together. The families' headers say what they hold. These structs are not beside the
// kernels, which are compiled once for each instruction set.

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

/// Summaries of each row by all parts of a vocabulary (ops/loss.h).
struct PartSummaries {
  const double* values;
  std::int64_t parts;
};

/// The token table, whose row 0 is token `first_token`, and the position table.
struct EmbeddingTables {
  const Tensor &tokens, &positions;
  std::int64_t first_token;
};

}  // namespace lockstep::ops::cpu
