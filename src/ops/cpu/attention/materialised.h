#pragma once

// Attention whose weights lie whole in memory (WholeWeights). It is made of products of whole heads and, between them, passes
// over all scores. Frameworks without tiled attention compute it so.

#include <cstdint>

#include "ops/attention.h"
#include "ops/cpu/context.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/plain/plain_products.h"
#include "ops/cpu/product/product.h"

namespace lockstep::ops::cpu {

/// Arguments of the passes over rows of scores of one head.
struct ScorePass {
  float *weights, *aside;  ///< [rows, keys]
  std::int64_t rows, keys;
  float* mask = nullptr;                 ///< [rows, keys] or null
  const std::int32_t* starts = nullptr;  ///< [rows] or null
  const float* delta = nullptr;          ///< [rows]
  float scale = 1;
  const DropoutSite* dropout = nullptr;  ///< null: none
  std::int64_t sample = 0, head = 0;
};
using ScoreKernel = void (*)(const ScorePass& pass);

struct ScoreKernels {
  ScoreKernel scale, store_mask, add_mask, hide, softmax, drop_weights, drop_aside, slope;
};

class MaterialisedAttention {
 public:
  /// All must outlive it; `plain` may be null.
  MaterialisedAttention(const Context& context, Product& products, PlainProducts* plain);
  void forward(const AttentionForward& call);
  /// call.delta holds each row's sum already.
  void backward(const AttentionBackward& call);

 private:
  struct Operand;
  struct Result;
  void multiply(const Operand& a, const Operand& b, const Result& c, std::int64_t inner, int worker);
  void forward(const AttentionForward& call, std::int64_t sample, std::int64_t head, int worker);
  void backward(const AttentionBackward& call, std::int64_t sample, std::int64_t kv_head, int worker);

  const Context& context_;
  Product& products_;
  PlainProducts* plain_;
  EpilogueKernels store_;
  ScoreKernels scores_;
};

}  // namespace lockstep::ops::cpu
