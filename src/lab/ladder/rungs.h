#pragma once

// The rungs of the optimisation ladder. The first is the training step as one writes it down first, the last the one that this
// program takes. Each rung adds one optimisation, by one setting. The rungs follow "PyTorch performance tips for faster LLM
// training" by S. Raschka.

#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "lab/step/step_shapes.h"
#include "layout/parallel_plan.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {

/// The training on a rung: its settings, and its ranks of one core each.
struct LadderPlace {
  StepShape shape;
  ops::PlainKernels plain = {.products = true, .epilogues = true, .norm = true, .adamw = true};
  layout::AttentionWeights attention = layout::AttentionWeights::masked;
  DType type = DType::f32;
  int ranks = 1;
};
/// Rung 0: plain kernels, a mask that every block keeps, fp32, and a vocabulary as the tokenizer has it.
LadderPlace foot_of(const StepShape& shape);

struct Rung {
  int number;
  std::string_view name, setting;
  std::string_view missing;  ///< why the rung changes nothing on this device; empty: it does
  /// Switches the optimisation on; `cores`: of the machine. Null where `missing` says why.
  void (*climb)(LadderPlace& place, int cores);
};
/// All rungs, by number from 0 on.
std::span<const Rung> rungs();

/// The rungs that "0-11" or "0,2,5-7" names, in order, with rung 0. Faults of the text go to `problems`.
std::vector<Rung> rungs_from(std::string_view text, std::vector<Problem>& problems);

}  // namespace lockstep::lab
