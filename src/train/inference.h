#pragma once

// A trained model for reading: weights alone, no gradient, no moments.

#include <memory>

#include "checkpoint/weight_source.h"
#include "device/runtime.h"
#include "device/team.h"
#include "model/context.h"
#include "parallel/stores.h"
#include "tensor/host_pieces.h"
#include "train/staged_decoder.h"

namespace lockstep::train {

class Inference {
 public:
  /// Takes memory for the weights that this rank has in the plan of `groups`. `type` (f32 or bf16) is that of weights and of
  /// activations. The arguments outlive the object.
  Inference(const arch::ModelConfig& model, DType type, Runtime& runtime, ops::Ops& ops, const parallel::Groups& groups,
            const parallel::StoreFactory& make_store = parallel::make_parameter_store);
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  /// Every rank gets its weights. Ranks that hold the same weights each read a part of them. Throws UserError when the weights
  /// are another model's. Collective.
  void load(const checkpoint::WeightSource& source, Team& team);
  /// Keeps weights as ops::Linear::prepack does, for writing text a token at a time. Results have the same bits. A matrix that
  /// embedding reads, too, is kept twice. Does nothing where weights are cut over ranks. After load(), once.
  void prepack();
  const model::Context& context() const { return context_; }
  /// The stages of the plan's pipeline have a chunk each.
  ModelShare share() const { return {context_, chunks_, links_}; }
  /// The ranks that read together.
  const parallel::Groups& groups() const { return groups_; }
  /// Bytes of this rank's weights: about what writing one token reads.
  std::int64_t weight_bytes() const { return arena_.bytes(); }

 private:
  /// Does load() where weights are cut over ranks: each rank reads its part.
  void read_parts(checkpoint::RangeReader& reader, Team& team);
  const parallel::Groups& groups_;
  std::vector<arch::UnitSpec> table_;
  std::vector<layout::Chunk> chunks_;
  PipelineLinks links_;
  Arena arena_, table_arena_, packed_arena_;
  parallel::ParameterMemory weights_;
  std::unique_ptr<parallel::ParameterStore> parameters_;
  std::unique_ptr<parallel::Boundary> boundary_;
  std::unique_ptr<parallel::ContextAttention> attention_;
  std::unique_ptr<model::Sums> sums_;
  Mirror angles_;
  model::Context context_;
  Runtime& runtime_;
  Arena pinned_arena_;
  Tensor piece_buffer_;
  HostPieces pieces_;
};

}  // namespace lockstep::train
