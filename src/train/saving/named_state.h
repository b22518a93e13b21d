#pragma once

// Training state as checkpoints name it.

#include <span>
#include <string>
#include <vector>

#include "checkpoint/held_unit.h"
#include "parallel/training_state.h"
#include "tensor/host_pieces.h"
#include "train/engine_config.h"

namespace lockstep::train {

/// "." and the name of each slot: the suffix of a parameter's name in files.
std::vector<std::string> slot_suffixes(const parallel::TrainingState& state);
/// All weights of the model; a rank may hold parts of some tensors alone. Trained weights have the type of masters, the others
/// the model's type.
std::vector<checkpoint::LogicalTensor> weight_tensors(const EngineConfig& config);
/// One tensor of `type` for every trained weight and suffix: gradients, for example.
std::vector<checkpoint::LogicalTensor> trained_tensors(const EngineConfig& config, DType type,
                                                       std::span<const std::string> suffixes);

/// Elements `range` of a unit, with the suffix of their names in files.
struct NamedPart {
  const layout::Unit& unit;
  layout::Range range;
  Tensor values;
  std::string suffix;
};

/// The part `part` of a buffer that holds all of `range`.
NamedPart part_of(const parallel::TrainingState& state, const parallel::StateRange& range, const Tensor& buffer,
                  const layout::Range& part, const std::string& suffix = "");

/// Calls use(ranges of named tensors in host memory) until all of the part was passed. With `changes`, what `use` writes is
/// copied back.
template <class Use>
void hold(const HostPieces& pieces, const NamedPart& part, bool changes, const Use& use) {
  if (part.range.count == 0) return;
  const auto named = [&](const Tensor& piece, std::int64_t first) {
    use(checkpoint::hold(part.unit, {part.range.first + first, piece.elements()}, piece, part.suffix));
  };
  changes ? pieces.change(part.values, named) : pieces.read(part.values, named);
}

/// Calls hold() for what this rank answers for in a range: its own weights, then its own part of each slot. `which` selects the
/// two. `suffixes` are slot_suffixes().
template <class Use>
void hold_own(const HostPieces& pieces, const parallel::TrainingState& state, const parallel::StateRange& range,
              const std::vector<std::string>& suffixes, const parallel::TrainingState::Use& which, const Use& use) {
  if (which.weights) hold(pieces, part_of(state, range, range.master, range.own), false, use);
  for (std::size_t s = 0; which.slots && s < range.slots.size(); ++s)
    hold(pieces, part_of(state, range, range.slots[s], range.own_slots, suffixes[s]), false, use);
}

}  // namespace lockstep::train
