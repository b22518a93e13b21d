#pragma once

// Layouts as `verify` and `bench step` are told of them: words with commas between, "dp=2,zero=3,gas=2".

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "layout/parallel_plan.h"
#include "parallel/zero/gradients.h"

namespace lockstep::lab {

/// What a layout has where its words do not say: as `verify` wants it.
struct LayoutDefaults {
  int microbatches = 4;                 ///< of a step, over all ranks; more where a schedule needs them
  std::int64_t bucket_bytes = 1 << 16;  ///< so small that a little model has several buckets
};
/// One micro-batch on each rank, and a run's buckets.
inline constexpr LayoutDefaults bench_defaults{.microbatches = 1, .bucket_bytes = parallel::GradientOptions{}.bucket_bytes};

/// How ranks share a training.
struct Layout {
  layout::ParallelPlan plan = {};
  parallel::GradientOptions gradients{.bucket_bytes = LayoutDefaults{}.bucket_bytes};
  std::optional<DType> moments = {};  ///< not the layout's: what is compared has it too
  bool documents = false;             ///< samples are several documents; as moments
  int servers = 0;                    ///< of parameters, ranks behind those of the plan

  /// Micro-batches of a step, over all ranks.
  int microbatches() const { return plan.dp * plan.microbatches; }
  int ranks() const { return plan.ranks() + servers; }
};

/// A word that a layout may have.
struct LayoutWord {
  std::string name, values, about;  ///< values: empty where it has none
  std::string limits = {};          ///< of numbers: "from 1 to 64"
};
/// "zero=0..3", "sequence".
std::string spelt(const LayoutWord& word);
std::vector<LayoutWord> layout_words();

/// The layout that a text names; nothing where `problems` got what is wrong with it.
std::optional<Layout> layout_from(std::string_view text, std::vector<Problem>& problems, const LayoutDefaults& defaults = {});
/// The settings of a run that a text asks for, "parallel.tp=2"; among its words may be settings, which have a dot in their name.
/// What is wrong with it goes to `problems`.
std::vector<std::string> settings_from(std::string_view text, std::vector<Problem>& problems);
/// Ranks that share the samples and nothing else.
Layout data_parallel(int ranks);
/// What is wrong with a layout for a model and `ranks` ranks, in these words.
std::vector<Problem> check(const Layout& layout, const layout::PlanLimits& limits, int ranks,
                           const LayoutDefaults& defaults = {});

/// The words that make the layout, the number of micro-batches among them: the same for equal layouts.
std::string name_of(const Layout& layout, const LayoutDefaults& defaults = {});

/// The layout that has the same sums and nothing else: no state is cut or moved, nothing is made again. Its bits are what the
/// layout promises (docs/numerics.md).
Layout plain(const Layout& layout);
/// One rank with the same samples of a step.
Layout one_rank(const Layout& layout);

/// Layouts by the name of their list: "quick", a few for every method, or "all", every method with every other.
std::vector<std::string> layout_list(std::string_view name);

}  // namespace lockstep::lab
