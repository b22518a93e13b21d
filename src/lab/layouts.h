#pragma once

// Layouts as texts for `verify` and `bench step`: words with commas between, "dp=2,zero=3,gas=2".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "layout/parallel_plan.h"
#include "parallel/zero/gradients.h"

namespace lockstep::lab {

/// Values that a layout has where its words do not say them: those of `verify`.
struct LayoutDefaults {
  int microbatches = 4;                 ///< of a step, over all ranks; more where a schedule needs them
  std::int64_t bucket_bytes = 1 << 16;  ///< so small that a little model has several buckets
};
/// The defaults of benches: one micro-batch on each rank, and a run's buckets.
inline constexpr LayoutDefaults bench_defaults{.microbatches = 1, .bucket_bytes = parallel::GradientOptions{}.bucket_bytes};

/// How ranks share a training.
struct Layout {
  layout::ParallelPlan plan = {};
  parallel::GradientOptions gradients{.bucket_bytes = LayoutDefaults{}.bucket_bytes};
  std::optional<DType> moments = {};  ///< no part of the layout: the run that it is compared with has it too
  bool documents = false;             ///< samples are several documents; no part of the layout, either
  int servers = 0;                    ///< parameter servers: ranks behind those of the plan

  /// Micro-batches of a step, over all ranks.
  int microbatches() const { return plan.dp * plan.microbatches; }
  int ranks() const { return plan.ranks() + servers; }
};

/// A word that a layout may have.
struct LayoutWord {
  std::string name, values, about;  ///< values: empty for a word without one
  std::string limits = {};          ///< of numbers, "from 1 to 64"
};
/// The word with its values: "zero=0..3", "sequence".
std::string spelt(const LayoutWord& word);
std::vector<LayoutWord> layout_words();

/// The layout that a text names. None where the text has faults, which go to `problems`.
std::optional<Layout> layout_from(std::string_view text, std::vector<Problem>& problems, const LayoutDefaults& defaults = {});
/// The settings of a run that a text asks for, as "parallel.tp=2". Its words may be settings, too, which have a dot in their
/// name. Faults of the text go to `problems`.
std::vector<std::string> settings_from(std::string_view text, std::vector<Problem>& problems);
/// The layout of `ranks` replicas, which divide the samples and nothing else.
Layout data_parallel(int ranks);
/// What is wrong with a layout for a model and `ranks` ranks, in the words of layouts.
std::vector<Problem> check(const Layout& layout, const layout::PlanLimits& limits, int ranks,
                           const LayoutDefaults& defaults = {});

/// The words of a layout, with the number of micro-batches. Equal layouts have equal words.
std::string name_of(const Layout& layout, const LayoutDefaults& defaults = {});

/// The layout with the same sums and nothing else: no state is cut or offloaded, nothing is recomputed. `layout` promises its
/// bits (docs/numerics.md).
Layout plain(const Layout& layout);
/// The layout of one rank with the same samples of a step.
Layout one_rank(const Layout& layout);

/// Layouts by the name of their list: "quick", a few for every method, or "all", every method with every other.
std::vector<std::string> layout_list(std::string_view name);

}  // namespace lockstep::lab
