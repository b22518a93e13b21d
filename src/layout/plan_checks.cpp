// What is wrong with a plan.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "layout/canonical_plan.h"
#include "layout/parallel_plan.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"
#include "layout/plan_fields.h"

namespace lockstep::layout {
namespace {

using Field = PlanField;

/// Ranks that exchange positions for heads. In canonical mode those that gather keys do so in the backward pass.
int exchanging_ranks(const ParallelPlan& plan) {
  if (plan.context == ContextMethod::ulysses || (plan.context == ContextMethod::allgather && plan.canonical)) return plan.cp;
  const int hosts = plan.context == ContextMethod::ulysses_ring ? context_hosts(plan) : 0;
  return hosts > 0 ? plan.cp / hosts : 1;
}

/// Whether every host has as many replicas of each part of a stage as the others that have some. A stage's ranks are neighbours,
/// tensor ranks first.
bool replicas_fill_hosts(const ParallelPlan& plan) {
  const int stage = plan.dp * plan.cp * plan.tp, host = plan.ranks_per_host;
  if (stage < 1) return true;  // degrees that are refused anyway
  return host % stage == 0 || (stage % host == 0 && (host % plan.tp == 0 || plan.tp % host == 0));
}

class PlanChecks {
 public:
  PlanChecks(const ParallelPlan& plan, const PlanLimits& limits, const PlanGrammar& say)
      : plan_(plan), limits_(limits), say_(say) {}

  std::vector<Problem> all(std::int64_t ranks) {
    degrees(ranks);
    shares();
    hosts();
    context_hosts();
    if (plan_.canonical) check_canonical(plan_, limits_, say_, problems_);
    if (plan_.sequence && plan_.tp == 1) {
      refuse(say_.has(Field::sequence, "true") + ": there is no tensor parallelism to share tokens with",
             fmt::format("set {}, or {}", say_.name(Field::tp), say_.set(Field::sequence, "false")));
    }
    schedule();
    split();
    cut_state();
    offloads();
    recompute();
    tiles();
    adapters();
    return std::move(problems_);
  }

 private:
  void refuse(std::string message, std::string remedy) { problems_.push_back({std::move(message), std::move(remedy)}); }

  // What makes the plan one of so many ranks.
  std::string fitting_degrees(std::int64_t ranks) const {
    const std::int64_t of_a_model = std::int64_t{plan_.tp} * plan_.cp * plan_.pp;
    if (ranks % of_a_model == 0)
      return fmt::format("start {} ranks, or set {}", plan_.ranks(), say_.set(Field::dp, ranks / of_a_model));
    std::string undivided = say_.unset(Field::dp);
    const auto undo = [&](bool divided, const std::string& setting) { undivided += divided ? " " + setting : ""; };
    undo(plan_.tp > 1, say_.set(Field::tp, 1));
    undo(plan_.sequence, say_.set(Field::sequence, "false"));
    undo(plan_.cp > 1, say_.set(Field::cp, 1));
    undo(plan_.pp > 1, say_.set(Field::pp, 1));
    undo(plan_.schedule != ParallelPlan{}.schedule, say_.set(Field::schedule, ParallelPlan{}.schedule));
    undo(plan_.chunks > 1, say_.unset(Field::virtual_stages));
    undo(!plan_.split.empty(), say_.unset(Field::split));
    return fmt::format("start {} ranks or a multiple of it, or divide the model among none: {}", of_a_model, undivided);
  }

  void degrees(std::int64_t ranks) {
    const auto before = problems_.size();
    for (const auto& [field, value] : {std::pair(Field::dp, plan_.dp),
                                       {Field::tp, plan_.tp},
                                       {Field::cp, plan_.cp},
                                       {Field::pp, plan_.pp},
                                       {Field::virtual_stages, plan_.chunks},
                                       {Field::gas, plan_.microbatches}}) {
      if (value < 1) refuse(say_.has(field, value) + ": must be at least 1", say_.set(field, 1));
    }
    const std::int64_t own = std::int64_t{plan_.dp} * plan_.tp * plan_.cp * plan_.pp;
    if (problems_.size() > before || own == ranks) return;
    refuse(fmt::format("dp {} x tp {} x cp {} x pp {} = {} ranks, but there {} {}", plan_.dp, plan_.tp, plan_.cp, plan_.pp, own,
                       ranks == 1 ? "is" : "are", ranks),
           fitting_degrees(ranks));
  }

  // No rank without a share.
  void share(Field field, std::int64_t parts, std::string_view what, std::int64_t things, std::string_view where = "") {
    if (parts <= things) return;
    const auto on = [&](std::string text) {  // "parallel.cp on one host = 4"
      return text.insert(say_.name(field).size(), where);
    };
    refuse(fmt::format("{}: the model has {} {}, so a rank would get none", on(say_.has(field, parts)), things, what),
           on(say_.set(field, things)) + " or less");
  }

  void shares() {
    share(Field::tp, plan_.tp, "heads", limits_.heads);
    share(Field::tp, plan_.tp, "feed-forward features", limits_.ffn_width);
    share(Field::tp, plan_.tp, "tokens in its vocabulary", limits_.vocabulary);
    if (plan_.stages() > limits_.layers) {
      const std::string chunks = plan_.table ? "" : ", " + say_.has(Field::virtual_stages, plan_.chunks);
      refuse(fmt::format("{} stages ({}, {}{}): the model has {} layers, and each stage needs one", plan_.stages(),
                         say_.has(Field::pp, plan_.pp), say_.has(Field::schedule, plan_.schedule), chunks, limits_.layers),
             fmt::format("take fewer stages, or {} or more", say_.set_layers(plan_.stages())));
    }
    if (plan_.sequence && plan_.cp >= 1)
      share(Field::tp, plan_.tp, plan_.cp == 1 ? "positions in a sequence" : "positions in a rank's part of a sequence",
            limits_.positions / plan_.cp);
    if (plan_.cp > 1) share(Field::cp, plan_.cp, "pairs of positions in a sequence", limits_.positions / 2);
    if (plan_.cp > 1 && plan_.tp >= 1) {
      share(Field::cp, exchanging_ranks(plan_), plan_.tp == 1 ? "heads" : "heads on a tensor rank", limits_.heads / plan_.tp,
            plan_.context == ContextMethod::ulysses_ring ? " on one host" : "");
    }
  }

  void hosts() {
    if (plan_.ranks_per_host < 0) {
      return refuse(say_.has(Field::ranks_per_host, plan_.ranks_per_host) + ": must be at least 1",
                    say_.unset(Field::ranks_per_host) + " takes the ranks as they were started");
    }
    const std::string uneven = "give every host as many ranks, or say how many make one with " + say_.name(Field::ranks_per_host);
    const std::string by_node = say_.has(Field::zero_group, "node");
    const bool cuts_hosts =
        plan_.parameters.cut == CutOver::host || plan_.gradients.cut == CutOver::host || plan_.optimizer.cut == CutOver::host;
    if (plan_.ranks_per_host == 0) {
      if (cuts_hosts) refuse(by_node + ": hosts have different numbers of ranks", uneven);
      if (plan_.tp > 1 && !plan_.allow_tp_across_hosts)
        refuse(say_.has(Field::tp, plan_.tp) + ": hosts have different numbers of ranks", uneven);
      return;
    }
    if (plan_.tp > 1 && plan_.ranks_per_host % plan_.tp != 0 && !plan_.allow_tp_across_hosts) {
      refuse(fmt::format("{}: a host's {} rank{} do not divide by it, so layers would be split across hosts",
                         say_.has(Field::tp, plan_.tp), plan_.ranks_per_host, plan_.ranks_per_host == 1 ? "" : "s"),
             "choose a tp that divides a host's ranks, or " + say_.set(Field::allow_tp_across_hosts, "true"));
    }
    if (cuts_hosts && plan_.ranks() % plan_.ranks_per_host != 0) {
      refuse(fmt::format("{}: {} ranks do not divide by the {} of a host", by_node, plan_.ranks(), plan_.ranks_per_host), uneven);
    } else if (cuts_hosts && !replicas_fill_hosts(plan_)) {
      refuse(fmt::format("{}: the {} ranks that train a stage do not lie evenly on hosts of {}", by_node,
                         plan_.dp * plan_.cp * plan_.tp, plan_.ranks_per_host),
             "choose degrees whose product (dp x cp x tp) divides a host's ranks, or that these divide, or " +
                 say_.set(Field::zero_group, "all"));
    }
  }

  void context_hosts() {
    if (plan_.context != ContextMethod::ulysses_ring || plan_.cp < 2 || plan_.tp < 1 || layout::context_hosts(plan_) > 0) return;
    const std::string cp = say_.name(Field::cp);
    refuse(fmt::format("{}: the {} ranks of {} do not lie evenly on hosts of {} ranks",
                       say_.has(Field::context, to_string(plan_.context)), plan_.cp, cp, plan_.ranks_per_host),
           fmt::format("choose a {} that a host's ranks (of each tensor rank) divide, or that divides them, or {}", cp,
                       say_.set(Field::context, to_string(ContextMethod::ring))));
  }

  void table() {
    const auto compare = [&](Field field, int wished, int has) {
      if (wished == has) return;
      refuse(fmt::format("{}: the table of {} has {}", say_.has(field, wished), say_.has(Field::schedule, plan_.schedule), has),
             say_.set(field, has) + ", or another schedule");
    };
    compare(Field::pp, plan_.pp, plan_.table->map.ranks());
    compare(Field::gas, plan_.microbatches, plan_.table->microbatches);
  }

  void schedule() {
    if (plan_.table) return table();
    if (plan_.chunks > 1 && plan_.pp == 1) {
      refuse(say_.has(Field::virtual_stages, plan_.chunks) + ": there is one pipeline rank",
             fmt::format("set {}, or {}", say_.name(Field::pp), say_.unset(Field::virtual_stages)));
    }
    if (const NamedSchedule* named = find_schedule(plan_.schedule)) {
      const std::vector<Problem> own = check(*named, {plan_.pp, plan_.pp > 1 ? plan_.chunks : 1, plan_.microbatches}, say_);
      problems_.insert(problems_.end(), own.begin(), own.end());
      return;
    }
    std::vector<std::string> names;
    for (const NamedSchedule& known : schedules()) names.push_back(say_.set(Field::schedule, known.name));
    refuse(say_.has(Field::schedule, plan_.schedule) + ": there is no such schedule",
           fmt::format("{}", fmt::join(names, " or ")));
  }

  void split() {
    if (plan_.split.empty()) return;
    const bool possible = plan_.stages() <= limits_.layers;
    const std::string remedy = possible
                                   ? say_.set(Field::split, to_string(even_split(plan_.stages(), limits_.layers))) + ", or null"
                                   : say_.unset(Field::split);
    const auto complain = [&](std::string_view what) {
      refuse(fmt::format("{}: {}", say_.has(Field::split, to_string(plan_.split)), what), remedy);
    };
    if (std::ssize(plan_.split) != plan_.stages())
      complain(fmt::format("it has {} parts, and the pipeline {} stages", plan_.split.size(), plan_.stages()));
    if (std::ranges::any_of(plan_.split, [](std::int64_t blocks) { return blocks < 1; })) complain("every stage needs a layer");
    const std::int64_t sum = std::accumulate(plan_.split.begin(), plan_.split.end(), std::int64_t{0});
    if (sum != limits_.layers) complain(fmt::format("it adds up to {} layers, and the model has {}", sum, limits_.layers));
  }

  void cut_state() {
    const bool parameters = plan_.parameters.cut != CutOver::none, gradients = plan_.gradients.cut != CutOver::none;
    if ((parameters && !gradients) || (gradients && plan_.optimizer.cut == CutOver::none)) {
      refuse("parameters are cut only with gradients, and gradients only with the optimizer's state",
             say_.set(Field::zero, 1) + ", 2 or 3");
    }
  }

  void offloads() {
    if (plan_.parameters.tier != Tier::device && plan_.parameters.cut == CutOver::none && plan_.dp * plan_.cp > 1) {
      refuse(fmt::format("{}: with {} below 3 each of the {} ranks that share the weights has all of them in its memory",
                         say_.name(Field::offload_params), say_.name(Field::zero), plan_.dp * plan_.cp),
             fmt::format("{}, or {}", say_.set(Field::zero, 3), say_.set(Field::offload_params, "none")));
    }
    if (plan_.activations != Tier::device && problems_.empty() && makes_weights_later(plan_)) {
      refuse(fmt::format("{}: the schedule {} makes weight gradients later, from activations that stay in memory until then",
                         say_.name(Field::offload_activations), plan_.schedule),
             fmt::format("{}, or {}", say_.set(Field::schedule, "1f1b"), say_.set(Field::offload_activations, "none")));
    }
  }

  void recompute() {
    if (plan_.recompute.every >= 1 && plan_.recompute.every <= limits_.layers) return;
    refuse(fmt::format("{}: the model has {} block{} to run again", say_.has(Field::recompute, to_string(plan_.recompute)),
                       limits_.layers, limits_.layers == 1 ? "" : "s"),
           fmt::format("{}, or every:k with k up to {}", say_.set(Field::recompute, "full"), limits_.layers));
  }

  void tiles() {
    const Tiles& tiles = plan_.tiles;
    const std::string has = say_.has(Field::tiles, to_string(tiles));
    if (tiles.in < 1 || tiles.out < 1)
      return refuse(has + ": there is at least one tile each way", say_.set(Field::tiles, "1x1") + " cuts nothing");
    const auto at_most = [](int wished, std::int64_t features) {
      return static_cast<int>(std::min<std::int64_t>(wished, features));
    };
    const Tiles most{.in = at_most(tiles.in, limits_.in_features), .out = at_most(tiles.out, limits_.out_features)};
    const auto fits = [&](int wished, std::int64_t features, std::string_view what) {
      if (wished <= features) return;
      refuse(fmt::format("{}: a block's smallest linear layer has {} {}", has, features, what),
             say_.set(Field::tiles, to_string(most)) + " or less");
    };
    fits(tiles.in, limits_.in_features, "in-features");
    fits(tiles.out, limits_.out_features, "out-features");
  }

  void adapters() {
    if (!limits_.adapters) return;
    const auto refuse_field = [&](Field field, const std::string& value, std::string_view why, const std::string& remedy) {
      refuse(fmt::format("{}: {}", say_.has(field, value), why), say_.set(field, remedy) + ", or adapter.rank=0");
    };
    if (plan_.canonical)
      refuse_field(Field::canonical, "true", "adapters are not summed by the ranges that make sums canonical", "false");
    if (plan_.tiles.cut())
      refuse_field(Field::tiles, to_string(plan_.tiles), "a matrix with an adapter beside it is not cut", "1x1");
  }

  const ParallelPlan& plan_;
  const PlanLimits& limits_;
  const PlanGrammar& say_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check(const ParallelPlan& plan, const PlanLimits& limits, std::int64_t ranks, const PlanGrammar& say) {
  return PlanChecks(plan, limits, say).all(ranks);
}

}  // namespace lockstep::layout
