#pragma once

// A trained model for reading: weights alone, no gradient, no moments.

#include <memory>
#include <vector>

#include "checkpoint/weight_source.h"
#include "device/cpu/team.h"
#include "device/runtime.h"
#include "model/context.h"
#include "parallel/zero/parameters.h"

namespace lockstep::train {

class Inference {
 public:
  /// Takes memory for the weights, in `type` (f32 or bf16), which is that of activations too. The arguments outlive it.
  Inference(const arch::ModelConfig& model, DType type, Runtime& runtime, ops::Ops& ops);
  ~Inference();
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  /// Throws UserError when the weights are another model's.
  void load(const checkpoint::WeightSource& source, cpu::Team& team);
  /// For writing text, a token at a time: weights are kept as ops::Linear::prepack keeps them, with the same bits in every
  /// result; a matrix that embedding reads too is kept twice. After load(), once.
  void prepack();
  const model::Context& context() const { return context_; }
  /// Bytes of all weights: about what writing one token reads.
  std::int64_t weight_bytes() const { return arena_.bytes(); }

 private:
  Arena arena_, table_arena_, packed_arena_;
  parallel::ZeroParameters parameters_;
  std::unique_ptr<parallel::Boundary> boundary_;
  model::Context context_;
  Runtime& runtime_;
  std::vector<Tensor> prepacked_;
};

}  // namespace lockstep::train
