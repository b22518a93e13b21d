#pragma once

// Loss on held-out (or training) text.

#include <functional>
#include <optional>
#include <string>

#include "data/loader.h"
#include "train/engine.h"

namespace lockstep::train {

struct Evaluation {
  double loss = 0;                            ///< sum of token losses over their number
  std::int64_t tokens = 0;                    ///< or groups of samples, where samples are judged whole
  std::optional<SampleFigures> figures = {};  ///< means over the groups
};

/// Throws UserError with `remedy` when an evaluation on `file` counted no target: its loss mask left none.
void demand_targets(std::int64_t targets, const data::TokenFile& file, const char* remedy);

/// The loss on all batches of `windows` with the engine's current weights. Ranks divide the batches, and all make as many passes.
/// The result is the same on all ranks and for any number of ranks. `given_up` is asked before each batch and answers alike on
/// all ranks; once it is true, there is no result. Throws UserError when no target of the batches counts. Collective.
std::optional<Evaluation> evaluate(Engine& engine, data::WindowSource& windows, const std::function<bool()>& given_up);

/// A note for the log before the first step, where the first evaluation takes long. Empty where `batches` batches take less than
/// half a minute. `peak_flops`: a rank's peak rate, FLOPs/s.
std::string note_of_long_evaluation(const Engine& engine, std::int64_t batches, double peak_flops);

}  // namespace lockstep::train
