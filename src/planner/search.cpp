#include "planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "arch/shard_rules.h"
#include "base/units.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::planner {
namespace {

/// The estimate leaves temporaries out: a layout that it finds above the memory by so much does not fit.
constexpr double kEstimated = 1.02;
/// A similar layout has at least this part of another one's ratio of declared to estimated bytes.
constexpr double kSure = 0.95;
/// The most layouts of a kind that are kept, and the most whose memory is declared to find one that fits.
constexpr std::size_t kKeptOfKind = 1000, kTriedOfKind = 60;
/// Simulated pipelines may be faster than formulas say, but not by more.
constexpr double kFormulaError = 1.1;
/// Kinds that people ask for first. The search says so where it finds no layout of them.
constexpr std::array<std::string_view, 8> kUsualFamilies{"DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "offload", "TP", "PP", "TP + PP"};

/// A share of the time: to be faster by less is no reason to choose a layout.
constexpr double kGain = 0.005;
/// Tensor ranks wait for the late one at every sum of every block, which formulas leave out.
constexpr double kGainOfTensorRanks = 0.02;

/// Seconds, made longer by what a layout has to gain for those of its parts that are not free to run.
double ranked_seconds(double seconds, const layout::ParallelPlan& plan) {
  double gain = plan.tp > 1 ? kGainOfTensorRanks : 0;
  for (const bool has : {plan.optimizer.tier != layout::Tier::device, plan.parameters.tier != layout::Tier::device,
                         plan.activations != layout::Tier::device, plan.tiles.cut(), plan.parameters.cut != layout::CutOver::none,
                         plan.cp > 1, plan.reduce == layout::ReduceEvery::microbatch})
    gain += has ? kGain : 0;
  return seconds * (1 + gain);
}

/// Whether two layouts of one family are as fast, as far as the planner can tell, and tell a reader the same. With the same
/// degrees and micro-batches ranks wait for the same things.
bool alike(const Candidate& one, double seconds, const Candidate& other, double other_seconds) {
  const layout::ParallelPlan &a = one.plan, &b = other.plan;
  return std::tuple(a.dp, a.tp, a.cp, a.pp, one.samples) == std::tuple(b.dp, b.tp, b.cp, b.pp, other.samples) &&
         std::abs(seconds - other_seconds) <= 2 * kGain * seconds;
}

struct Timed {
  std::pair<double, std::int64_t> place;  ///< ranked_seconds(), then the number: of alike ones the first leads
  double bytes;                           ///< estimated
  Candidate candidate;
};

/// The fastest of a kind, by formula.
class Fastest {
 public:
  void take(const std::pair<double, std::int64_t>& place, double bytes, const Candidate& candidate) {
    if (place >= slowest_) return;
    all_.push_back({place, bytes, candidate});
    if (all_.size() < 2 * kKeptOfKind) return;
    std::ranges::nth_element(all_, all_.begin() + kKeptOfKind, {}, &Timed::place);
    slowest_ = all_[kKeptOfKind].place;
    all_.resize(kKeptOfKind);
  }
  /// Sorts the layouts, the fastest first.
  const std::vector<Timed>& sorted() {
    std::ranges::sort(all_, {}, &Timed::place);
    return all_;
  }

 private:
  std::vector<Timed> all_;
  std::pair<double, std::int64_t> slowest_{std::numeric_limits<double>::infinity(), 0};  ///< so many are known to be faster
};

/// Layouts that formulas compare well: how far these are off differs by schedule, and by what they leave out of the bytes.
using Kind = std::tuple<std::string, bool, bool>;
Kind kind_of(const layout::ParallelPlan& plan) {
  return {plan.schedule, plan.activations != layout::Tier::device, plan.recompute.every > 1};
}

struct Looked {
  std::map<Kind, Fastest> kinds;
  std::vector<Found> fitting;
  double least_estimate = std::numeric_limits<double>::infinity();
  Candidate least;                      ///< that the estimate is of
  std::optional<DeviceMemory> nearest;  ///< of what was declared and does not fit, by how many times it is too much
};

class Search {
 public:
  explicit Search(const SearchQuestion& question)
      : question_(question), work_(question.work), limits_(arch::plan_limits(work_.model, work_.positions)) {}

  SearchResult run(int top) {
    enumerate(question_, [&](const Candidate& candidate) { look(candidate); });
    fit_all(static_cast<std::size_t>(top));
    std::optional<DeviceMemory> nearest;
    for (auto& [name, looked] : families_) {
      if (looked.fitting.empty()) try_least(looked);
      if (looked.nearest && (!nearest || excess(*looked.nearest) < excess(*nearest))) nearest = looked.nearest;
      const std::vector<Found> fitting = unlike(looked.fitting);
      Family family{.name = name, .best = std::nullopt, .reason = {}};
      if (!fitting.empty()) family.best = fitting.front();
      result_.families.push_back(std::move(family));
      result_.best.insert(result_.best.end(), fitting.begin(), fitting.end());
    }
    for (const std::string_view name : kUsualFamilies) {
      if (!families_.contains(std::string(name))) result_.families.push_back({std::string(name), std::nullopt, {}});
    }
    if (nearest) result_.needed = needed(*nearest);
    std::ranges::stable_sort(result_.best, {}, [](const Found& found) { return ranked_seconds(found); });
    if (result_.best.size() > static_cast<std::size_t>(top)) result_.best.resize(static_cast<std::size_t>(top));
    for (Family& family : result_.families) family.reason = reason(family);
    std::ranges::stable_sort(result_.families, {}, [&](const Family& family) {
      return family.best ? ranked_seconds(*family.best) : std::numeric_limits<double>::infinity();
    });
    return std::move(result_);
  }

 private:
  void look(const Candidate& candidate) {
    if (!supports(work_.system, candidate.plan)) return;
    ++result_.legal;
    const double bytes = estimated_bytes(work_, candidate);
    Looked& family = families_[family_of(candidate.plan)];
    if (bytes < family.least_estimate) {
      family.least_estimate = bytes;
      family.least = candidate;
    }
    if (bytes > kEstimated * work_.machine.usable_memory()) return;
    const double seconds = ranked_seconds(timer_.of(candidate).total(), candidate.plan);
    family.kinds[kind_of(candidate.plan)].take({seconds, result_.legal}, bytes, candidate);
  }

  /// What fits of every kind, the one with the fastest by formula first.
  void fit_all(std::size_t top) {
    struct Next {
      double seconds;
      Looked* family;
      Fastest* kind;
    };
    std::vector<Next> all;
    for (auto& [name, looked] : families_) {
      for (auto& [kind, fastest] : looked.kinds) all.push_back({fastest.sorted().front().place.first, &looked, &fastest});
    }
    std::ranges::stable_sort(all, {}, &Next::seconds);
    for (const Next& next : all) fit(*next.family, *next.kind, top);
  }

  /// Whether a layout with these ranked_seconds() by formula is neither among the `top` fastest nor the fastest of its family.
  bool hopeless(double seconds, const Looked& family, std::size_t top) const {
    if (family.fitting.empty() || fitting_seconds_.size() < top) return false;
    const double fastest =
        ranked_seconds(*std::ranges::min_element(family.fitting, {}, [](const Found& found) { return ranked_seconds(found); }));
    return seconds > kFormulaError * std::max(fastest, fitting_seconds_[top - 1]);
  }

  /// Takes the first layouts of a kind that fit, and simulates them.
  void fit(Looked& family, Fastest& kind, std::size_t top) {
    std::vector<const Timed*> fitting;
    std::size_t tried = 0;
    // What was declared, at least, of a byte that was estimated, by what the estimate depends on.
    std::map<std::tuple<layout::Recompute::Kind, layout::CutOver, layout::Tier, layout::ContextMethod, layout::ReduceEvery>,
             double>
        declared;
    for (const Timed& timed : kind.sorted()) {
      if (fitting.size() >= top || tried >= kTriedOfKind || hopeless(timed.place.first, family, top)) break;
      const layout::ParallelPlan& plan = timed.candidate.plan;
      double& share = declared[{plan.recompute.kind, plan.parameters.cut, plan.optimizer.tier, plan.context, plan.reduce}];
      if (kSure * timed.bytes * share > work_.machine.usable_memory()) continue;
      const auto same = [&](const Timed* other) {
        return alike(timed.candidate, timed.place.first, other->candidate, other->place.first);
      };
      if (std::ranges::any_of(fitting, same)) continue;
      if (!layout::check(plan, limits_, work_.machine.ranks()).empty()) continue;
      ++tried;
      const DeviceMemory memory = device_memory(work_, timed.candidate);
      if (take(family, timed.candidate, memory)) {
        fitting.push_back(&timed);
      } else {
        const double part = static_cast<double>(memory.bytes) / timed.bytes;
        share = share == 0 ? part : std::min(share, part);
      }
    }
  }

  /// Adds a layout that fits to the family; returns false where it does not fit.
  bool take(Looked& family, const Candidate& candidate, const DeviceMemory& memory) {
    if (excess(memory) > 1) {
      if (!family.nearest || excess(memory) < excess(*family.nearest)) family.nearest = memory;
      return false;
    }
    family.fitting.push_back({candidate, simulated_time(work_, candidate), memory});
    const double found = ranked_seconds(family.fitting.back());
    fitting_seconds_.insert(std::ranges::upper_bound(fitting_seconds_, found), found);
    return true;
  }

  /// Tries a family's smallest layout, so that the answer for a family in which nothing fits names declared bytes.
  void try_least(Looked& family) {
    constexpr int most_microbatches = 1 << 12;  // whose lists are long
    const layout::ParallelPlan& plan = family.least.plan;
    if (plan.microbatches > most_microbatches || !layout::check(plan, limits_, work_.machine.ranks()).empty()) return;
    take(family, family.least, device_memory(work_, family.least));
  }

  double host_bytes(const DeviceMemory& memory) const {
    return static_cast<double>(memory.host_bytes) * static_cast<double>(work_.machine.devices);
  }
  /// Needed memory over the memory that there is; above 1: the layout does not fit.
  double excess(const DeviceMemory& memory) const {
    const double host = host_bytes(memory);
    return std::max(static_cast<double>(memory.bytes) / work_.machine.usable_memory(),
                    host > 0 ? host / work_.machine.host_memory : 0);
  }
  /// The memory that a layout needs too much of, in words.
  std::string needed(const DeviceMemory& memory) const {
    const auto text = [](double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
    const double bytes = static_cast<double>(memory.bytes), host = host_bytes(memory);
    const double room = work_.machine.usable_memory(), host_room = work_.machine.host_memory;
    std::string words = bytes > room ? fmt::format("{} of {} a device", text(bytes), text(room)) : "";
    if (host > host_room)
      words += fmt::format("{}{} of {} of a node's memory", words.empty() ? "" : " and ", text(host), text(host_room));
    return words;
  }

  /// The layouts without those that are alike, the fastest first.
  static std::vector<Found> unlike(std::vector<Found> all) {
    std::ranges::stable_sort(all, {}, [](const Found& found) { return ranked_seconds(found); });
    std::vector<Found> some;
    for (const Found& found : all) {
      const auto same = [&](const Found& other) {
        return alike(found.candidate, ranked_seconds(found), other.candidate, ranked_seconds(other));
      };
      if (std::ranges::none_of(some, same)) some.push_back(found);
    }
    return some;
  }

  std::string reason(const Family& family) const {
    if (!family.best) {
      const auto looked = families_.find(family.name);
      if (looked == families_.end() && !is_own(work_.system))
        return fmt::format("{} has none for these ranks", work_.system.name);
      if (looked == families_.end()) return "no such layout divides the ranks and the samples of a step";
      if (looked->second.nearest) return fmt::format("does not fit: needs at least {}", needed(*looked->second.nearest));
      return fmt::format("does not fit: needs at least about {} a device",
                         format_bytes(static_cast<std::uint64_t>(looked->second.least_estimate)));
    }
    const StepTime &own = family.best->time, &winner = result_.best.front().time;
    if (family.name == family_of(result_.best.front().candidate.plan)) return {};
    if (own.total() == winner.total()) return "as fast, and gains nothing by what it adds";
    if (own.total() < winner.total()) return "gains too little by what it adds";
    struct Part {
      double more;
      std::string_view words;
    };
    const std::array<Part, 9> parts{
        {{own.compute - winner.compute, "products and passes over memory of its shapes"},
         {own.recompute - winner.recompute, "what it recomputes to fit"},
         {own.tensor_parallel - winner.tensor_parallel, "waiting for ranks that divide layers or positions"},
         {own.messages - winner.messages, "messages between stages"},
         {own.bubble - winner.bubble, "the pipeline's bubble"},
         {own.gather - winner.gather, "waiting for weights that it gathers or brings"},
         {own.activations - winner.activations, "waiting for activations that lie elsewhere"},
         {own.replicas - winner.replicas, "sums of gradients that nothing hides"},
         {own.optimizer - winner.optimizer, "the update"}}};
    const Part& most = *std::ranges::max_element(parts, {}, &Part::more);
    return fmt::format("{:.2f} x the time: {} more for {}", own.total() / winner.total(), format_seconds(most.more), most.words);
  }

  const SearchQuestion& question_;
  const Work& work_;
  StepTimer timer_{work_};
  layout::PlanLimits limits_;
  std::map<std::string, Looked> families_;
  std::vector<double> fitting_seconds_;  ///< of all that fit, in order
  SearchResult result_;
};

}  // namespace

double ranked_seconds(const Found& found) { return ranked_seconds(found.time.total(), found.candidate.plan); }

SearchResult search(const SearchQuestion& question, int top) { return Search(question).run(top); }

layout::Timeline simulated(const Work& work, const Candidate& candidate) {
  const layout::StageMap map = layout::stage_map(candidate.plan);
  const layout::NamedSchedule& schedule = *layout::find_schedule(candidate.plan.schedule);
  const auto passes =
      schedule.passes({.ranks = candidate.plan.pp, .chunks = candidate.plan.chunks, .microbatches = candidate.plan.microbatches});
  return layout::simulate(layout::bare_actions(passes, map), map, stage_seconds(work, candidate));
}

StepTime simulated_time(const Work& work, const Candidate& candidate) {
  StepTime time = step_time(work, candidate);
  if (candidate.plan.pp == 1) return time;
  time.bubble = 0;
  const double busy = time.total() - time.replicas - time.optimizer;
  time.bubble = std::max(0.0, simulated(work, candidate).makespan - busy);
  return time;
}

std::string family_of(const layout::ParallelPlan& plan) {
  std::string name;
  for (const auto& [degree, kind] : {std::pair(plan.tp, "TP"), std::pair(plan.cp, "CP"), std::pair(plan.pp, "PP")}) {
    if (degree <= 1) continue;
    if (!name.empty()) name += " + ";
    name += kind;
  }
  if (!name.empty()) return name;
  for (const layout::Tier tier : {plan.optimizer.tier, plan.parameters.tier, plan.activations})
    if (tier != layout::Tier::device) return "offload";
  if (const int level = layout::zero_level(plan); level > 0) return "ZeRO-" + std::to_string(level);
  return plan.dp > 1 ? "DDP" : "one device";
}

}  // namespace lockstep::planner
