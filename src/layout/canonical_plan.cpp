#include "layout/canonical_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "layout/canonical_grid.h"
#include "layout/range.h"

namespace lockstep::layout {
namespace {

// Ranks that divide positions make sums of whole samples together, but for gains and biases, which are summed where rows are.
void check_canonical_context(const ParallelPlan& plan, const PlanLimits& limits, std::vector<Problem>& problems) {
  constexpr std::string_view off = "numerics.canonical=false";
  if (plan.context == ContextMethod::ring || plan.context == ContextMethod::ulysses_ring) {
    problems.push_back({fmt::format("parallel.context = {}: numerics.canonical = true adds in one order, and a ring in that in "
                                    "which keys come by",
                                    to_string(plan.context)),
                        fmt::format("parallel.context=allgather, parallel.context=ulysses, or {}", off)});
  }
  if (!divides_canonical_ranges(2 * std::int64_t{plan.cp})) {
    problems.push_back(
        {fmt::format(
             "parallel.cp = {}: numerics.canonical = true cuts positions into {} ranges, of which a rank has some from the "
             "front and as many from the back",
             plan.cp, canonical_ranges),
         fmt::format("parallel.cp=2 or {}, or {}", canonical_ranges / 2, off)});
    return;
  }
  if (divides_canonical_ranges(plan.tp) && !divides_canonical_ranges(std::int64_t{plan.tp} * plan.cp)) {
    problems.push_back(
        {fmt::format("parallel.tp x parallel.cp = {}: numerics.canonical = true cuts heads and the vocabulary into "
                     "{} ranges, and each rank needs one",
                     plan.tp * plan.cp, canonical_ranges),
         fmt::format("parallel.cp={} or less, or {}", canonical_ranges / plan.tp, off)});
  }
  if (plan.sequence && limits.positions % canonical_ranges != 0) {
    problems.push_back(
        {fmt::format("parallel.sequence = true with parallel.cp = {}: of {} positions in {} ranges "
                     "(numerics.canonical = true) ranks would have parts",
                     plan.cp, limits.positions, canonical_ranges),
         fmt::format("a model.block_size that {} divides, parallel.sequence=false, or {}", canonical_ranges, off)});
  }
}

// Heads that share a key/value head are divided where ranges end. Those of tensor ranks end there, but half of those may not.
void check_canonical_heads(const ParallelPlan& plan, const PlanLimits& limits, std::vector<Problem>& problems) {
  const std::int64_t kv_heads = limits.kv_heads > 0 ? limits.kv_heads : limits.heads;
  const std::int64_t group = std::max<std::int64_t>(1, limits.heads / kv_heads);
  const auto cuts_part = [&](std::int64_t cut) {
    const auto ends = [&](int range) { return canonical_range(limits.heads, range).first == cut; };
    return cut % group != 0 && std::ranges::none_of(std::views::iota(0, canonical_ranges), ends);
  };
  for (int rank = 0; rank < plan.tp * plan.cp; ++rank) {
    const Range heads = part_of(limits.heads, rank / plan.cp, plan.tp);
    if (!cuts_part(heads.first + part_of(heads.count, rank % plan.cp, plan.cp).first)) continue;
    problems.push_back(
        {fmt::format("parallel.tp = {}, parallel.cp = {}: ranks would divide the {} heads of the model where a key/value head is "
                     "shared, and inside one of the {} ranges of numerics.canonical = true",
                     plan.tp, plan.cp, limits.heads, canonical_ranges),
         "parallel.cp=1, or numerics.canonical=false"});
    break;
  }
}

}  // namespace

// What canonical mode sums by ranges is cut where ranges end, and by powers of two, as the tree is.
void check_canonical(const ParallelPlan& plan, const PlanLimits& limits, std::vector<Problem>& problems) {
  constexpr std::string_view off = "numerics.canonical=false";
  const auto degree = [&](std::string_view name, std::int64_t value, std::string_view remedy) {
    if (divides_canonical_ranges(value)) return;
    problems.push_back(
        {fmt::format("{} = {}: numerics.canonical = true sums by {} ranges, which a layout divides by 1, 2, 4 or {}", name, value,
                     canonical_ranges, canonical_ranges),
         fmt::format("{}, or {}", remedy, off)});
  };
  degree("parallel.tp", plan.tp, "take one of these");
  degree("data-parallel ranks x optimizer.gas", std::int64_t{plan.dp} * plan.microbatches,
         "choose parallel.dp and optimizer.gas that multiply to one of these (fewer, larger micro-batches learn the same)");
  if (plan.cp > 1) check_canonical_context(plan, limits, problems);
  if (plan.tiles.cut()) {
    problems.push_back(
        {fmt::format("memory.tiles = {}: numerics.canonical = true sums whole matrices by ranges", to_string(plan.tiles)),
         fmt::format("memory.tiles=1x1, or {}", off)});
  }
  if (plan.reduce == ReduceEvery::microbatch && plan.microbatches > 1) {
    problems.push_back(
        {"parallel.reduce = microbatch: numerics.canonical = true adds micro-batches and ranks in the order of one tree",
         fmt::format("parallel.reduce=step, or {}", off)});
  }
  if (divides_canonical_ranges(plan.tp) && divides_canonical_ranges(2 * std::int64_t{plan.cp}))
    check_canonical_heads(plan, limits, problems);
}

}  // namespace lockstep::layout
