#include "layout/canonical_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "layout/canonical_grid.h"
#include "layout/plan_fields.h"
#include "layout/range.h"

namespace lockstep::layout {
namespace {

using Field = PlanField;

// Ranks that divide positions make sums of whole samples together, but for gains and biases, which are summed where rows are.
void check_canonical_context(const ParallelPlan& plan, const PlanLimits& limits, const PlanGrammar& say,
                             std::vector<Problem>& problems) {
  const std::string on = say.has(Field::canonical, "true"), off = say.set(Field::canonical, "false");
  if (plan.context == ContextMethod::ring || plan.context == ContextMethod::ulysses_ring) {
    problems.push_back({fmt::format("{}: {} adds in one order, and a ring in that in which keys come by",
                                    say.has(Field::context, to_string(plan.context)), on),
                        fmt::format("{}, {}, or {}", say.set(Field::context, to_string(ContextMethod::allgather)),
                                    say.set(Field::context, to_string(ContextMethod::ulysses)), off)});
  }
  if (!divides_canonical_ranges(2 * std::int64_t{plan.cp})) {
    problems.push_back(
        {fmt::format("{}: {} cuts positions into {} ranges, of which a rank has some from the front and as many from the back",
                     say.has(Field::cp, plan.cp), on, canonical_ranges),
         fmt::format("{} or {}, or {}", say.set(Field::cp, 2), canonical_ranges / 2, off)});
    return;
  }
  if (divides_canonical_ranges(plan.tp) && !divides_canonical_ranges(std::int64_t{plan.tp} * plan.cp)) {
    problems.push_back({fmt::format("{} x {}: {} cuts heads and the vocabulary into {} ranges, and each rank needs one",
                                    say.name(Field::tp), say.has(Field::cp, plan.tp * plan.cp), on, canonical_ranges),
                        fmt::format("{} or less, or {}", say.set(Field::cp, canonical_ranges / plan.tp), off)});
  }
  if (plan.sequence && limits.positions % canonical_ranges != 0) {
    problems.push_back(
        {fmt::format("{} with {}: of {} positions in {} ranges ({}) ranks would have parts", say.has(Field::sequence, "true"),
                     say.has(Field::cp, plan.cp), limits.positions, canonical_ranges, on),
         fmt::format("a {} that {} divides, {}, or {}", say.positions(), canonical_ranges, say.set(Field::sequence, "false"),
                     off)});
  }
}

// Heads that share a key/value head are divided where ranges end. Those of tensor ranks end there, but half of those may not.
void check_canonical_heads(const ParallelPlan& plan, const PlanLimits& limits, const PlanGrammar& say,
                           std::vector<Problem>& problems) {
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
        {fmt::format("{}, {}: ranks would divide the {} heads of the model where a key/value head is shared, and inside one of "
                     "the {} ranges of {}",
                     say.has(Field::tp, plan.tp), say.has(Field::cp, plan.cp), limits.heads, canonical_ranges,
                     say.has(Field::canonical, "true")),
         fmt::format("{}, or {}", say.set(Field::cp, 1), say.set(Field::canonical, "false"))});
    break;
  }
}

}  // namespace

// What canonical mode sums by ranges is cut where ranges end, and by powers of two, as the tree is.
void check_canonical(const ParallelPlan& plan, const PlanLimits& limits, const PlanGrammar& say, std::vector<Problem>& problems) {
  const std::string on = say.has(Field::canonical, "true"), off = say.set(Field::canonical, "false");
  const auto degree = [&](const std::string& has, std::int64_t value, std::string_view remedy) {
    if (divides_canonical_ranges(value)) return;
    problems.push_back({fmt::format("{}: {} sums by {} ranges, which a layout divides by 1, 2, 4 or {}", has, on,
                                    canonical_ranges, canonical_ranges),
                        fmt::format("{}, or {}", remedy, off)});
  };
  degree(say.has(Field::tp, plan.tp), plan.tp, "take one of these");
  const std::int64_t samples = std::int64_t{plan.dp} * plan.microbatches;
  degree("data-parallel ranks x " + say.has(Field::gas, samples), samples,
         fmt::format("choose {} and {} that multiply to one of these (fewer, larger micro-batches learn the same)",
                     say.name(Field::dp), say.name(Field::gas)));
  if (plan.cp > 1) check_canonical_context(plan, limits, say, problems);
  if (plan.tiles.cut()) {
    problems.push_back({fmt::format("{}: {} sums whole matrices by ranges", say.has(Field::tiles, to_string(plan.tiles)), on),
                        fmt::format("{}, or {}", say.set(Field::tiles, "1x1"), off)});
  }
  if (plan.reduce == ReduceEvery::microbatch && plan.microbatches > 1) {
    problems.push_back(
        {fmt::format("{}: {} adds micro-batches and ranks in the order of one tree", say.has(Field::reduce, "microbatch"), on),
         fmt::format("{}, or {}", say.set(Field::reduce, "step"), off)});
  }
  if (divides_canonical_ranges(plan.tp) && divides_canonical_ranges(2 * std::int64_t{plan.cp}))
    check_canonical_heads(plan, limits, say, problems);
}

}  // namespace lockstep::layout
