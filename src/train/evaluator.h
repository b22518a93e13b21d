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
  std::int64_t tokens = 0;                    ///< or groups of samples
  std::optional<SampleFigures> figures = {};  ///< means of these
};

/// Throws UserError with `remedy` when an evaluation on `file` counted no target: its loss mask left none.
void demand_targets(std::int64_t targets, const data::TokenFile& file, const char* remedy);

/// All batches of `reader` through the engine's current weights, divided among the ranks, of which each makes as many passes; the
/// result is the same on all of them and for any number of them. `given_up` is asked before each batch and answers alike on all
/// ranks: once it is true, there is no result. Throws UserError when none of their targets counts. Collective.
std::optional<Evaluation> evaluate(Engine& engine, data::WindowSource& windows, const std::function<bool()>& given_up);

/// What to say before the first step, where an evaluation of `batches` batches takes half a minute and more: of a large model
/// that is longer than people wait for a line. Else nothing. `peak_flops`: of a rank.
std::string note_of_long_evaluation(const Engine& engine, std::int64_t batches, double peak_flops);

}  // namespace lockstep::train
