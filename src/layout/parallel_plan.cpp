#include "layout/parallel_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/number_text.h"
#include "layout/canonical_plan.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"

namespace lockstep::layout {
namespace {

constexpr std::array<std::pair<std::string_view, ContextMethod>, 4> kContextMethods{
    {{"allgather", ContextMethod::allgather},
     {"ulysses", ContextMethod::ulysses},
     {"ring", ContextMethod::ring},
     {"ulysses+ring", ContextMethod::ulysses_ring}}};

/// Ranks that exchange positions for heads. In canonical mode those that gather keys do so in the backward pass.
int exchanging_ranks(const ParallelPlan& plan) {
  if (plan.context == ContextMethod::ulysses || (plan.context == ContextMethod::allgather && plan.canonical)) return plan.cp;
  const int hosts = plan.context == ContextMethod::ulysses_ring ? context_hosts(plan) : 0;
  return hosts > 0 ? plan.cp / hosts : 1;
}

// What makes the plan one of so many ranks.
std::string fitting_degrees(const ParallelPlan& plan, std::int64_t ranks) {
  const std::int64_t of_a_model = std::int64_t{plan.tp} * plan.cp * plan.pp;
  if (ranks % of_a_model == 0) return fmt::format("start {} ranks, or set parallel.dp={}", plan.ranks(), ranks / of_a_model);
  std::string undivided = "parallel.dp=null";
  for (const auto& [divided, setting] : {std::pair(plan.tp > 1, " parallel.tp=1"),
                                         {plan.sequence, " parallel.sequence=false"},
                                         {plan.cp > 1, " parallel.cp=1"},
                                         {plan.pp > 1, " parallel.pp=1"},
                                         {plan.schedule != ParallelPlan{}.schedule, " parallel.schedule=1f1b"},
                                         {plan.chunks > 1, " parallel.virtual_stages=null"},
                                         {!plan.split.empty(), " parallel.split=null"}}) {
    if (divided) undivided += setting;
  }
  return fmt::format("start {} ranks or a multiple of it, or divide the model among none: {}", of_a_model, undivided);
}

void check_degrees(const ParallelPlan& plan, std::int64_t ranks, std::vector<Problem>& problems) {
  struct Degree {
    std::string_view name;
    int value;
  };
  const std::array<Degree, 6> degrees{{{"parallel.dp", plan.dp},
                                       {"parallel.tp", plan.tp},
                                       {"parallel.cp", plan.cp},
                                       {"parallel.pp", plan.pp},
                                       {"parallel.virtual_stages", plan.chunks},
                                       {"optimizer.gas", plan.microbatches}}};
  bool good = true;
  for (const Degree& degree : degrees) {
    if (degree.value >= 1) continue;
    good = false;
    problems.push_back({fmt::format("{} = {}: must be at least 1", degree.name, degree.value), fmt::format("{}=1", degree.name)});
  }
  if (good && plan.ranks() != ranks) {
    problems.push_back({fmt::format("dp {} x tp {} x cp {} x pp {} = {} ranks, but there {} {}", plan.dp, plan.tp, plan.cp,
                                    plan.pp, plan.ranks(), ranks == 1 ? "is" : "are", ranks),
                        fitting_degrees(plan, ranks)});
  }
}

// No rank without a share.
void check_shares(const ParallelPlan& plan, const PlanLimits& limits, std::vector<Problem>& problems) {
  const auto share = [&](std::string_view name, std::int64_t parts, std::string_view what, std::int64_t things) {
    if (parts <= things) return;
    problems.push_back({fmt::format("{} = {}: the model has {} {}, so a rank would get none", name, parts, things, what),
                        fmt::format("{}={} or less", name, things)});
  };
  share("parallel.tp", plan.tp, "heads", limits.heads);
  share("parallel.tp", plan.tp, "feed-forward features", limits.ffn_width);
  share("parallel.tp", plan.tp, "tokens in its vocabulary", limits.vocabulary);
  if (plan.stages() > limits.layers) {
    problems.push_back(
        {fmt::format("{} stages (parallel.pp = {}, parallel.schedule = {}{}): the model has {} layers, and each stage needs one",
                     plan.stages(), plan.pp, plan.schedule,
                     plan.table ? "" : fmt::format(", parallel.virtual_stages = {}", plan.chunks), limits.layers),
         fmt::format("take fewer stages, or model.n_layer={} or more", plan.stages())});
  }
  if (plan.sequence && plan.cp >= 1)
    share("parallel.tp", plan.tp, plan.cp == 1 ? "positions in a sequence" : "positions in a rank's part of a sequence",
          limits.positions / plan.cp);
  if (plan.cp > 1) share("parallel.cp", plan.cp, "pairs of positions in a sequence", limits.positions / 2);
  if (plan.cp > 1 && plan.tp >= 1) {
    const bool some = plan.context == ContextMethod::ulysses_ring;
    share(some ? "parallel.cp on one host" : "parallel.cp", exchanging_ranks(plan),
          plan.tp == 1 ? "heads" : "heads on a tensor rank", limits.heads / plan.tp);
  }
}

/// Whether every host has as many replicas of each part of a stage as the others that have some. A stage's ranks are neighbours,
/// tensor ranks first.
bool replicas_fill_hosts(const ParallelPlan& plan) {
  const int stage = plan.dp * plan.cp * plan.tp, host = plan.ranks_per_host;
  if (stage < 1) return true;  // degrees that are refused anyway
  return host % stage == 0 || (stage % host == 0 && (host % plan.tp == 0 || plan.tp % host == 0));
}

void check_hosts(const ParallelPlan& plan, std::vector<Problem>& problems) {
  const std::string_view uneven_remedy = "give every host as many ranks, or say how many make one with parallel.ranks_per_host";
  if (plan.ranks_per_host < 0) {
    problems.push_back({fmt::format("parallel.ranks_per_host = {}: must be at least 1", plan.ranks_per_host),
                        "parallel.ranks_per_host=null takes the ranks as they were started"});
    return;
  }
  const bool cuts_hosts =
      plan.parameters.cut == CutOver::host || plan.gradients.cut == CutOver::host || plan.optimizer.cut == CutOver::host;
  if (plan.ranks_per_host == 0) {
    if (cuts_hosts)
      problems.push_back({"memory.zero_group = node: hosts have different numbers of ranks", std::string(uneven_remedy)});
    if (plan.tp > 1 && !plan.allow_tp_across_hosts)
      problems.push_back(
          {fmt::format("parallel.tp = {}: hosts have different numbers of ranks", plan.tp), std::string(uneven_remedy)});
    return;
  }
  if (plan.tp > 1 && plan.ranks_per_host % plan.tp != 0 && !plan.allow_tp_across_hosts) {
    problems.push_back(
        {fmt::format("parallel.tp = {}: a host's {} rank{} do not divide by it, so layers would be split across hosts", plan.tp,
                     plan.ranks_per_host, plan.ranks_per_host == 1 ? "" : "s"),
         "choose a tp that divides a host's ranks, or parallel.allow_tp_across_hosts=true"});
  }
  if (cuts_hosts && plan.ranks() % plan.ranks_per_host != 0) {
    problems.push_back(
        {fmt::format("memory.zero_group = node: {} ranks do not divide by the {} of a host", plan.ranks(), plan.ranks_per_host),
         std::string(uneven_remedy)});
  } else if (cuts_hosts && !replicas_fill_hosts(plan)) {
    problems.push_back(
        {fmt::format("memory.zero_group = node: the {} ranks that train a stage do not lie evenly on hosts of {}",
                     plan.dp * plan.cp * plan.tp, plan.ranks_per_host),
         "choose degrees whose product (dp x cp x tp) divides a host's ranks, or that these divide, or memory.zero_group=all"});
  }
}

void check_context_hosts(const ParallelPlan& plan, std::vector<Problem>& problems) {
  if (plan.context != ContextMethod::ulysses_ring || plan.cp < 2 || plan.tp < 1 || context_hosts(plan) > 0) return;
  problems.push_back(
      {fmt::format("parallel.context = ulysses+ring: the {} ranks of parallel.cp do not lie evenly on hosts of {} ranks", plan.cp,
                   plan.ranks_per_host),
       "choose a parallel.cp that a host's ranks (of each tensor rank) divide, or that divides them, or "
       "parallel.context=ring"});
}

void check_split(const ParallelPlan& plan, const PlanLimits& limits, std::vector<Problem>& problems) {
  if (plan.split.empty()) return;
  const std::string remedy = plan.stages() <= limits.layers
                                 ? fmt::format("parallel.split={}, or null", to_string(even_split(plan.stages(), limits.layers)))
                                 : "parallel.split=null";
  const auto complain = [&](const std::string& what) {
    problems.push_back({fmt::format("parallel.split = {}: {}", to_string(plan.split), what), remedy});
  };
  if (std::ssize(plan.split) != plan.stages())
    complain(fmt::format("it has {} parts, and the pipeline {} stages", plan.split.size(), plan.stages()));
  if (std::ranges::any_of(plan.split, [](std::int64_t blocks) { return blocks < 1; })) complain("every stage needs a layer");
  const std::int64_t sum = std::accumulate(plan.split.begin(), plan.split.end(), std::int64_t{0});
  if (sum != limits.layers) complain(fmt::format("it adds up to {} layers, and the model has {}", sum, limits.layers));
}

void check_tiles(const Tiles& tiles, const PlanLimits& limits, std::vector<Problem>& problems) {
  if (tiles.in < 1 || tiles.out < 1) {
    problems.push_back({fmt::format("memory.tiles = {}: there is at least one tile each way", to_string(tiles)),
                        "memory.tiles=1x1 cuts nothing"});
    return;
  }
  const auto fits = [&](int wished, std::int64_t features, std::string_view what, const Tiles& most) {
    if (wished <= features) return;
    problems.push_back(
        {fmt::format("memory.tiles = {}: a block's smallest linear layer has {} {}", to_string(tiles), features, what),
         fmt::format("memory.tiles={} or less", to_string(most))});
  };
  const auto at_most = [](int wished, std::int64_t features) {
    return static_cast<int>(std::min<std::int64_t>(wished, features));
  };
  const Tiles most{.in = at_most(tiles.in, limits.in_features), .out = at_most(tiles.out, limits.out_features)};
  fits(tiles.in, limits.in_features, "in-features", most);
  fits(tiles.out, limits.out_features, "out-features", most);
}

void check_table(const ParallelPlan& plan, std::vector<Problem>& problems) {
  const auto compare = [&](std::string_view setting, int wished, int has) {
    if (wished == has) return;
    problems.push_back({fmt::format("{} = {}: the table of parallel.schedule = {} has {}", setting, wished, plan.schedule, has),
                        fmt::format("{}={}, or another schedule", setting, has)});
  };
  compare("parallel.pp", plan.pp, plan.table->map.ranks());
  compare("optimizer.gas", plan.microbatches, plan.table->microbatches);
}

void check_schedule(const ParallelPlan& plan, std::vector<Problem>& problems) {
  if (plan.table) return check_table(plan, problems);
  if (plan.chunks > 1 && plan.pp == 1) {
    problems.push_back({fmt::format("parallel.virtual_stages = {}: there is one pipeline rank", plan.chunks),
                        "set parallel.pp, or parallel.virtual_stages=null"});
  }
  if (const NamedSchedule* schedule = find_schedule(plan.schedule)) {
    const std::vector<Problem> own = check(*schedule, {plan.pp, plan.pp > 1 ? plan.chunks : 1, plan.microbatches});
    problems.insert(problems.end(), own.begin(), own.end());
    return;
  }
  std::vector<std::string> names;
  for (const NamedSchedule& schedule : schedules()) names.push_back(fmt::format("parallel.schedule={}", schedule.name));
  problems.push_back({fmt::format("parallel.schedule = {}: there is no such schedule", plan.schedule),
                      fmt::format("{}", fmt::join(names, " or "))});
}

}  // namespace

std::vector<Problem> check(const ParallelPlan& plan, const PlanLimits& limits, std::int64_t ranks) {
  std::vector<Problem> problems;
  check_degrees(plan, ranks, problems);
  check_shares(plan, limits, problems);
  check_hosts(plan, problems);
  check_context_hosts(plan, problems);
  if (plan.canonical) check_canonical(plan, limits, problems);
  if (plan.sequence && plan.tp == 1)
    problems.push_back({"parallel.sequence = true: there is no tensor parallelism to share tokens with",
                        "set parallel.tp, or parallel.sequence=false"});
  check_schedule(plan, problems);
  check_split(plan, limits, problems);
  const bool parameters_cut = plan.parameters.cut != CutOver::none, gradients_cut = plan.gradients.cut != CutOver::none;
  if ((parameters_cut && !gradients_cut) || (gradients_cut && plan.optimizer.cut == CutOver::none)) {
    problems.push_back(
        {"parameters are cut only with gradients, and gradients only with the optimizer's state", "memory.zero=1, 2 or 3"});
  }
  if (plan.parameters.tier != Tier::device && !parameters_cut && plan.dp * plan.cp > 1) {
    problems.push_back(
        {fmt::format("memory.offload_params: with memory.zero below 3 each of the {} ranks that share the weights has "
                     "all of them in its memory",
                     plan.dp * plan.cp),
         "memory.zero=3, or memory.offload_params=none"});
  }
  if (plan.activations != Tier::device && problems.empty() && makes_weights_later(plan)) {
    problems.push_back(
        {fmt::format("memory.offload_activations: the schedule {} makes weight gradients later, from activations that "
                     "stay in memory until then",
                     plan.schedule),
         "parallel.schedule=1f1b, or memory.offload_activations=none"});
  }
  if (plan.recompute.every < 1 || plan.recompute.every > limits.layers) {
    problems.push_back({fmt::format("memory.recompute = {}: the model has {} block{} to run again", to_string(plan.recompute),
                                    limits.layers, limits.layers == 1 ? "" : "s"),
                        fmt::format("memory.recompute=full, or every:k with k up to {}", limits.layers)});
  }
  check_tiles(plan.tiles, limits, problems);
  return problems;
}

std::vector<std::string_view> context_methods() {
  std::vector<std::string_view> names;
  for (const auto& [name, method] : kContextMethods) names.push_back(name);
  return names;
}

// Ranks are numbered by tensor rank first, then by context rank.
int context_hosts(const ParallelPlan& plan) {
  const int group = plan.cp * plan.tp, host = plan.ranks_per_host;
  if (host <= 0) return 0;
  if (host >= plan.ranks() || host % group == 0) return 1;
  if (group % host != 0) return 0;
  if (host % plan.tp == 0) return group / host;
  return plan.tp % host == 0 ? plan.cp : 0;
}

std::optional<ContextMethod> context_from(std::string_view text) {
  for (const auto& [name, method] : kContextMethods) {
    if (name == text) return method;
  }
  return std::nullopt;
}

std::string_view to_string(ContextMethod method) {
  for (const auto& [name, named] : kContextMethods) {
    if (named == method) return name;
  }
  throw BrokenRule("a way of context parallelism has a name");
}

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
