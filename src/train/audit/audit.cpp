#include "train/audit/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "comm/text.h"
#include "io/checksum.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::train {
namespace {

using Passes = parallel::AuditedGradients::Passes;

Tensor all_of(std::vector<std::int64_t>& numbers) { return view(std::span(numbers), Shape{std::ssize(numbers)}); }

/// The numbers of all ranks, by rank; every rank gives as many. Collective.
std::vector<std::int64_t> gathered(comm::Communicator& group, std::vector<std::int64_t> own) {
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(group.size()));
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()), std::ssize(own));
  group.host().all_gather(all_of(all), all_of(own), counts).wait();
  return all;
}

/// Whether `holds` is true on any rank. Collective.
bool on_any(comm::Communicator& ranks, bool holds) {
  std::int64_t any = holds ? 1 : 0;
  ranks.host().all_reduce(view(std::span(&any, 1), Shape{1}), comm::Reduction::max).wait();
  return any != 0;
}

/// "rank 3", "ranks 1 and 2".
std::string ranks_in_words(const std::set<std::int64_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", *ranks.begin());
  const auto last = std::prev(ranks.end());
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), last, ", "), *last);
}

std::int64_t sum_of(const Tensor& tensor) {
  return static_cast<std::int64_t>(io::checksum({tensor.data, tensor.bytes()}, size_of(tensor.dtype), 0));
}

/// Checksums by unit: one of its weights, then one of its slots.
std::vector<std::int64_t> state_sums(parallel::TrainingState& state) {
  std::vector<std::int64_t> sums(2 * state.units().size());
  state.for_each({.slots = true, .halves = true}, [&](const parallel::StateRange& range) {
    const auto u = static_cast<std::size_t>(range.unit.value);
    for (const Tensor* weights : {&range.master, &range.published, &range.low}) {
      if (*weights) sums[2 * u] = sums[2 * u] * 31 + sum_of(*weights);
    }
    for (const Tensor& slot : range.slots) sums[2 * u + 1] = sums[2 * u + 1] * 31 + sum_of(slot);
  });
  return sums;
}

/// The ranks whose value is not that of most ranks; all of them, where no value is. `values` are by rank.
std::set<std::int64_t> outsiders(const std::map<std::int64_t, std::int64_t>& values) {
  std::map<std::int64_t, std::size_t> votes;
  for (const auto& [rank, value] : values) ++votes[value];
  const auto most = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  std::set<std::int64_t> ranks;
  for (const auto& [rank, value] : values) {
    if (2 * most->second <= values.size() || value != most->first) ranks.insert(rank);
  }
  return ranks;
}

/// Whether weight gradients of a later micro-batch are begun before those of the first one are complete.
bool adds_second_first(const std::vector<layout::Action>& actions) {
  using Kind = layout::Action::Kind;
  std::set<int> complete;  // chunks
  return std::ranges::any_of(actions, [&](const layout::Action& action) {
    const bool makes = action.kind == Kind::weight_backward || action.kind == Kind::backward;
    if (makes && action.microbatch.value == 0) complete.insert(action.chunk);
    return action.kind == Kind::input_backward && action.microbatch.value > 0 && !complete.contains(action.chunk);
  });
}

}  // namespace

std::optional<Problem> audit_obstacle(const EngineConfig& config) {
  const layout::ParallelPlan& plan = config.plan;
  if (config.servers) return Problem{"workers of parameter servers are no replicas of each other", "train.backend=DDP"};
  if (plan.dp == 1) {
    return Problem{"there is one replica (parallel.dp = 1), and nobody does its micro-batch again",
                   "start more ranks, for parallel.dp=2"};
  }
  if (plan.canonical) {
    return Problem{"in canonical mode a gradient is complete with the last micro-batch alone", "numerics.canonical=false"};
  }
  if (std::ranges::any_of(layout::actions_of(plan), adds_second_first)) {
    return Problem{"the schedule adds a second micro-batch to a gradient before the first one is complete",
                   "parallel.schedule=1f1b"};
  }
  return std::nullopt;
}

Audit::Audit(const Parts& parts) : parts_(parts) {
  ensure(!audit_obstacle(parts.config), "what is audited has replicas that do the same");
}

int Audit::shift(bool second) const {
  if (!second) return drawn_;
  return drawn_ + 1 < replicas() ? drawn_ + 1 : 1;
}

int Audit::shifted(int rank, int by) const {
  layout::Coordinates at = parts_.groups.mesh().coordinates(rank);
  at.dp = (at.dp + by + replicas()) % replicas();
  return parts_.groups.mesh().rank(at);
}

void Audit::exchange(const Tensor& place, const Tensor& mine, int by) const {
  comm::Communicator& group = parts_.groups.data().host();
  comm::Request sent = group.send(mine, (group.rank() + by) % replicas());
  group.receive(place, (group.rank() - by + replicas()) % replicas()).wait();
  sent.wait();
}

std::string Audit::since() const {
  if (!passed_) return "; no audit came before, so begin anew, on other hosts";
  return fmt::format("; go on from a checkpoint of step {} or before, on other hosts", *passed_);
}

void Audit::demand_alike(parallel::TrainingState& state, std::int64_t step) {
  const layout::CutOver over = parts_.config.plan.optimizer.cut;
  comm::Communicator& group = parts_.groups.alike(over);
  comm::Communicator& all = parts_.groups.all();
  std::vector<std::int64_t> own;
  bool differs = false;
  // State that lies elsewhere between steps has checksums there.
  if (group.size() > 1 && state.stays({.slots = true, .halves = true})) {
    own = state_sums(state);
    std::vector<std::int64_t> whole{sum_of(all_of(own))};
    const std::vector<std::int64_t> sums = gathered(group, whole);
    differs = std::ranges::any_of(sums, [&](std::int64_t sum) { return sum != sums.front(); });
  }
  if (!on_any(all, differs)) return;
  std::string text;
  if (differs) {
    own.push_back(all.rank());
    const std::vector<std::int64_t> sums = gathered(group, own);
    for (std::size_t i = 0; i + 1 < own.size() && text.empty(); ++i) {
      std::map<std::int64_t, std::int64_t> values;
      for (std::size_t r = 0; r < static_cast<std::size_t>(group.size()); ++r)
        values[sums[(r + 1) * own.size() - 1]] = sums[r * own.size() + i];
      const std::set<std::int64_t> wrong = outsiders(values);
      if (wrong.empty()) continue;
      const bool known = wrong.size() < values.size();
      text = fmt::format(
          "step {}: {} of {} on {} {}{}", step + 1, i % 2 == 0 ? "the weights" : "the optimizer's slots",
          state.units()[i / 2].name, ranks_in_words(wrong),
          known ? "are not those of the other ranks that keep the same" : "differ, and one of these ranks is wrong", since());
    }
  }
  for (const std::string& one : comm::all_texts(all, text)) {
    if (!one.empty()) throw SystemError(one);
  }
}

const data::Batch& Audit::other(const data::Batch& own, std::int64_t step, bool second) {
  if (!second) {
    const CounterRng random(parts_.config.seed, "audit");
    drawn_ = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(replicas()) - 1, static_cast<std::uint64_t>(step)));
  }
  std::array<std::int64_t, 2> head{static_cast<std::int64_t>(own.first_sample), own.target_count}, got{};
  const auto move = [&](const Tensor& place, const Tensor& mine) { exchange(place, mine, shift(second)); };
  move(view(std::span<std::int64_t>(got), Shape{2}), view(std::span<std::int64_t>(head), Shape{2}));
  const AuditMemory& memory = parts_.memory;
  move(memory.tokens, own.tokens.flat(0, own.tokens.elements()));
  move(memory.targets, own.targets.flat(0, own.targets.elements()));
  if (own.references) move(memory.references, own.references);
  other_ = own;
  other_.first_sample = static_cast<std::uint64_t>(got[0]);
  other_.target_count = got[1];
  other_.tokens = memory.tokens;
  other_.targets = memory.targets;
  if (own.references) other_.references = memory.references;
  parts_.gradients.listen(Passes::again, other_.tokens);
  return other_;
}

void Audit::done_again(bool second) { (second ? third_ : again_) = sum_of(all_of(parts_.gradients.sums(Passes::again))); }

bool Audit::alike(std::int64_t step) {
  std::vector<std::int64_t>& own = parts_.gradients.sums(Passes::own);
  std::vector<std::int64_t>& again = parts_.gradients.sums(Passes::again);
  own_ = sum_of(all_of(own));
  received_.resize(own.size());
  exchange(all_of(received_), all_of(own), drawn_);
  const auto differs = std::ranges::mismatch(received_, again).in1;
  found_ = differs == received_.end() ? "" : parts_.gradients.name(static_cast<std::size_t>(differs - received_.begin()));
  if (on_any(parts_.groups.all(), !found_.empty())) return false;
  passed_ = step;
  return true;
}

void Audit::fail(std::int64_t step) {
  comm::Communicator& all = parts_.groups.all();
  const std::vector<std::int64_t> sums = gathered(all, {own_, again_, third_});
  const std::vector<std::string> names = comm::all_texts(all, found_);
  std::set<std::int64_t> wrong, unsure;
  std::string tensor;
  for (int own = 0; own < all.size(); ++own) {
    const int again = shifted(own, shift(false)), third = shifted(own, shift(true));
    const auto sum = [&](int rank, std::size_t which) { return sums[3 * static_cast<std::size_t>(rank) + which]; };
    if (sum(own, 0) == sum(again, 1)) continue;
    if (tensor.empty()) tensor = names[static_cast<std::size_t>(again)];
    if (replicas() > 2 && sum(third, 2) == sum(again, 1)) {
      wrong.insert(own);
    } else if (replicas() > 2 && sum(third, 2) == sum(own, 0)) {
      wrong.insert(again);
    } else {
      unsure.insert({own, again});
    }
  }
  if (!wrong.empty()) {
    throw SystemError(
        fmt::format("step {}: {} {} wrong: two other replicas agree on a micro-batch, and the gradient of {} differs{}", step + 1,
                    ranks_in_words(wrong), wrong.size() == 1 ? "is" : "are", tensor, since()));
  }
  throw SystemError(fmt::format("step {}: {} made different gradients of {} from one micro-batch, and one of them is wrong{}",
                                step + 1, ranks_in_words(unsure), tensor, since()));
}

}  // namespace lockstep::train
