#include "planner/context_exchange.h"

#include <algorithm>

#include "base/checked.h"

namespace lockstep::planner {
namespace {

using layout::ContextMethod;

constexpr double kSumBytes = 4;

/// Heads that all of `ranks` have together: a key/value head that several read is with each of them.
double shared_out(std::int64_t heads, int ranks) { return static_cast<double>(div_up(heads, ranks) * ranks); }

ContextSeconds gathering(const AttentionPart& part, const layout::ParallelPlan& plan, const Machine& machine) {
  const double all = part.rows * plan.cp * static_cast<double>(part.kv_heads * part.head_size);
  const Group ranks = context_group(plan, machine);
  return {.forward = 2 * gather_seconds(part.element_bytes * all, ranks, machine),
          .backward = 2 * gather_seconds(kSumBytes * all, ranks, machine)};
}

/// Exchanges queries and results, keys and values; the backward pass exchanges their gradients.
ContextSeconds exchanging(const AttentionPart& part, const Group& ranks, const Machine& machine) {
  const double each = part.element_bytes * part.rows * static_cast<double>(part.head_size);
  const double seconds = 2 * gather_seconds(each * shared_out(part.heads, ranks.ranks), ranks, machine) +
                         2 * gather_seconds(each * shared_out(part.kv_heads, ranks.ranks), ranks, machine);
  return {seconds, seconds};
}

/// `elements`: keys and values of one hop.
ContextSeconds passing(const AttentionPart& part, double elements, const Group& ring, const Machine& machine) {
  const double hops = ring.ranks - 1;
  const auto bare = [&](double bytes, double computing) {
    return hops * std::max(0.0, send_seconds(bytes * elements, ring.inside, machine) - computing / ring.ranks);
  };
  return {
      .forward = bare(part.element_bytes, part.forward),
      .backward = bare(part.element_bytes + kSumBytes, part.backward) + send_seconds(kSumBytes * elements, ring.inside, machine)};
}

}  // namespace

ContextGroups context_groups(const layout::ParallelPlan& plan) {
  switch (plan.context) {
    case ContextMethod::allgather:
      return {};
    case ContextMethod::ulysses:
      return {.exchanging = plan.cp};
    case ContextMethod::ring:
      return {.passing = plan.cp};
    case ContextMethod::ulysses_ring: {
      const int hosts = std::max(1, context_hosts(plan));
      return {.exchanging = plan.cp / hosts, .passing = hosts};
    }
  }
  throw BrokenRule("a way of context parallelism is one of these");
}

ContextSeconds context_seconds(const AttentionPart& part, const layout::ParallelPlan& plan, const Machine& machine) {
  if (plan.cp == 1) return {};
  if (plan.context == ContextMethod::allgather) return gathering(part, plan, machine);
  const ContextGroups groups = context_groups(plan);
  const bool inside = context_group(plan, machine).inside;
  ContextSeconds seconds;
  if (groups.exchanging > 1) {
    const ContextSeconds exchanged = exchanging(part, {groups.exchanging, inside || groups.passing > 1}, machine);
    seconds.forward += exchanged.forward;
    seconds.backward += exchanged.backward;
  }
  if (groups.passing > 1) {
    // A rank has as many rows more as it has fewer heads.
    const double heads = shared_out(part.kv_heads, groups.exchanging);
    const ContextSeconds passed =
        passing(part, 2 * part.rows * heads * static_cast<double>(part.head_size), {groups.passing, inside}, machine);
    seconds.forward += passed.forward;
    seconds.backward += passed.backward;
  }
  return seconds;
}

double kept_beside(const arch::ModelConfig& model, const layout::ParallelPlan& plan) {
  if (plan.cp == 1) return 0;
  const std::int64_t heads = div_up(model.heads, plan.tp), kv_heads = div_up(model.kv_heads, plan.tp);
  const auto size = static_cast<double>(model.head_size);
  if (plan.context == ContextMethod::allgather) return 2 * size * static_cast<double>(kv_heads * plan.cp);
  const int ranks = context_groups(plan).exchanging;
  return ranks == 1 ? 0 : 2 * size * (shared_out(heads, ranks) + shared_out(kv_heads, ranks));
}

}  // namespace lockstep::planner
