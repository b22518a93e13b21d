#pragma once

// Layouts as `verify` is told of them: words with commas between, "dp=2,zero=3,gas=2".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "layout/parallel_plan.h"
#include "parallel/zero/gradients.h"

namespace lockstep::lab {

/// How ranks share a training.
struct Layout {
  layout::ParallelPlan plan = {};
  parallel::GradientOptions gradients{.bucket_bytes = 1 << 16};  ///< so small that a little model has several buckets
  std::optional<DType> moments = {};                             ///< not the layout's: what is compared has it too

  /// Micro-batches of a step, over all ranks.
  int microbatches() const { return plan.dp * plan.microbatches; }
};

/// A word that a layout may have.
struct LayoutWord {
  std::string_view name, values, about;  ///< values: empty where it has none
};
/// "zero=0..3", "sequence".
std::string spelt(const LayoutWord& word);
std::vector<LayoutWord> layout_words();

/// The layout that a text names; nothing where `problems` got what is wrong with it. Where it does not say how many, a step has 4
/// micro-batches, or as many as its schedule needs.
std::optional<Layout> layout_from(std::string_view text, std::vector<Problem>& problems);
/// What is wrong with a layout for a model.
std::vector<Problem> check(const Layout& layout, const layout::PlanLimits& limits);

/// The words that make the layout, the number of micro-batches among them: the same for equal layouts.
std::string name_of(const Layout& layout);

/// The layout that has the same sums and nothing else: no state is cut or moved, nothing is made again. Its bits are what the
/// layout promises (docs/numerics.md).
Layout plain(const Layout& layout);
/// One rank with the same samples of a step.
Layout one_rank(const Layout& layout);

/// Layouts by the name of their list: "quick", a few for every method, or "all", every method with every other.
std::vector<std::string> layout_list(std::string_view name);

}  // namespace lockstep::lab
