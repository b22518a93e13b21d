#include "layout/parallel_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/number_text.h"
#include "layout/pipeline/split.h"
#include "layout/plan_wish.h"

namespace lockstep::layout {
// Ranks are numbered by tensor rank first, then by context rank.
int context_hosts(const ParallelPlan& plan) {
  const int group = plan.cp * plan.tp, host = plan.ranks_per_host;
  if (host <= 0) return 0;
  if (host >= plan.ranks() || host % group == 0) return 1;
  if (group % host != 0) return 0;
  if (host % plan.tp == 0) return group / host;
  return plan.tp % host == 0 ? plan.cp : 0;
}

std::string_view to_string(ContextMethod method) { return word_of(method); }

std::optional<Recompute> recompute_from(std::string_view text) {
  using enum Recompute::Kind;
  if (text == "none") return Recompute{};
  if (text == "selective") return Recompute{selective};
  if (text == "full") return Recompute{full};
  constexpr std::string_view prefix = "every:";
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  const auto every = number_from<int>(text);
  return every && *every >= 1 ? std::optional(Recompute{full, *every}) : std::nullopt;
}

std::string to_string(const Recompute& recompute) {
  using enum Recompute::Kind;
  if (recompute.kind == none) return "none";
  if (recompute.kind == selective) return "selective";
  return recompute.every == 1 ? "full" : fmt::format("every:{}", recompute.every);
}

void set_zero_level(ParallelPlan& plan, int level, CutOver over) {
  const auto from = [&](int least) { return level >= least ? over : CutOver::none; };
  plan.optimizer.cut = from(1);
  plan.gradients.cut = from(2);
  plan.parameters.cut = from(3);
}

int zero_level(const ParallelPlan& plan) {
  const auto cut = [](const Placement& placement) { return placement.cut == CutOver::none ? 0 : 1; };
  return cut(plan.optimizer) + cut(plan.gradients) + cut(plan.parameters);
}

std::string describe(const ParallelPlan& plan) {
  std::string text;
  const auto say = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  if (plan.dp > 1) say(fmt::format("dp={}", plan.dp));
  if (plan.tp > 1) say(fmt::format("tp={}", plan.tp));
  if (plan.cp > 1) say(fmt::format("cp={} ({})", plan.cp, to_string(plan.context)));
  if (plan.pp > 1) say(fmt::format("pp={} ({})", plan.pp, plan.schedule));
  if (plan.pp > 1 && !plan.split.empty()) say(fmt::format("split={}", to_string(plan.split)));
  if (plan.sequence) say("sequence");
  if (plan.recompute != Recompute{}) say(fmt::format("recompute={}", to_string(plan.recompute)));
  if (plan.tiles.cut()) say(fmt::format("tiles={}", to_string(plan.tiles)));
  if (plan.canonical) say("canonical");
  return text.empty() ? "one rank" : text;
}

}  // namespace lockstep::layout
