#include "app/start/memory_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "app/cli/process.h"
#include "app/start/copies.h"
#include "base/units.h"
#include "comm/free_memory.h"
#include "comm/text.h"
#include "layout/canonical_grid.h"
#include "planner/memory.h"
#include "train/memory/rank_memory.h"

namespace lockstep::app {
namespace {

using layout::CutOver;
using RecomputeKind = layout::Recompute::Kind;

/// Settings that learn the same in other memory.
struct Alternative {
  std::string words;
  train::EngineConfig settings;
};

void add_levels(const RankNeeds& needs, std::vector<Alternative>& all) {
  const layout::ParallelPlan& plan = needs.settings.plan;
  const bool hosts = needs.config.memory.zero_group == CutOver::host;
  if (plan.dp == 1 || needs.settings.servers || (hosts && plan.ranks_per_host < 2)) return;
  for (int level = zero_level(needs.config) + 1; level <= 3; ++level) {
    Alternative& other = all.emplace_back(Alternative{fmt::format("memory.zero={}", level), needs.settings});
    layout::set_zero_level(other.settings.plan, level, hosts ? CutOver::host : CutOver::all);
  }
}

void add_recomputation(const RankNeeds& needs, std::vector<Alternative>& all) {
  const layout::Recompute& now = needs.settings.plan.recompute;
  const auto add = [&](const char* words, RecomputeKind kind) {
    all.push_back({words, needs.settings});
    all.back().settings.plan.recompute = {kind, 1};
  };
  if (now.kind == RecomputeKind::none) add("memory.recompute=selective", RecomputeKind::selective);
  if (now.kind != RecomputeKind::full || now.every > 1) add("memory.recompute=full", RecomputeKind::full);
}

// The samples of a step stay.
void add_smaller_batches(const RankNeeds& needs, std::vector<Alternative>& all) {
  const std::int64_t samples = needs.settings.samples, gas = needs.settings.plan.microbatches;
  std::vector<std::int64_t> smaller;
  if (samples % 2 == 0) smaller.push_back(samples / 2);
  if (samples > 2) smaller.push_back(1);
  for (const std::int64_t batch : smaller) {
    const std::int64_t more = gas * (samples / batch);
    const layout::ParallelPlan& plan = needs.settings.plan;
    if (plan.canonical && !layout::divides_canonical_ranges(plan.dp * more)) continue;
    all.push_back({fmt::format("model.batch_size={} with optimizer.gas={}", batch, more), needs.settings});
    all.back().settings.samples = batch;
    all.back().settings.plan.microbatches = static_cast<int>(more);
  }
}

// One after another, and all that are left together.
void add_offload(const RankNeeds& needs, std::vector<Alternative>& all) {
  const layout::ParallelPlan& plan = needs.settings.plan;
  std::vector<std::string> words;
  layout::ParallelPlan together = plan;
  const auto add = [&](const char* word, bool possible, auto&& tier) {
    if (!possible || tier(together) == layout::Tier::disk) return;
    words.emplace_back(word);
    tier(together) = layout::Tier::disk;
    all.push_back({word, needs.settings});
    tier(all.back().settings.plan) = layout::Tier::disk;
  };
  const bool held_by_one = plan.dp * plan.cp == 1 || plan.parameters.cut != CutOver::none;
  add("memory.offload_optimizer=nvme", !needs.settings.servers, [](auto& of) -> auto& { return of.optimizer.tier; });
  add("memory.offload_params=nvme", !needs.settings.servers && held_by_one, [](auto& of) -> auto& { return of.parameters.tier; });
  add("memory.offload_activations=nvme", !layout::makes_weights_later(plan), [](auto& of) -> auto& { return of.activations; });
  if (words.size() < 2) return;
  all.push_back({fmt::format("{}", fmt::join(words, " with ")), needs.settings});
  all.back().settings.plan = together;
}

// Where weights are leased part by part.
void add_tiles(const RankNeeds& needs, std::vector<Alternative>& all) {
  const layout::ParallelPlan& plan = needs.settings.plan;
  const bool leased = plan.parameters.cut != CutOver::none || plan.parameters.tier != layout::Tier::device;
  if (!leased || plan.tiles.cut()) return;
  all.push_back({"memory.tiles=1x4", needs.settings});
  all.back().settings.plan.tiles = {.in = 1, .out = 4, .larger_than = plan.tiles.larger_than};
}

void add_saves(const RankNeeds& needs, std::vector<Alternative>& all) {
  const bool beside = needs.config.checkpoint.async.value_or(false);
  if (needs.settings.copied_pieces > 0) {
    all.push_back({"checkpoint.copies=none", needs.settings});
    all.back().settings.copied_pieces = 0;
    all.back().settings.saves_beside = beside;
  } else if (beside) {
    all.push_back({"checkpoint.async=false", needs.settings});
    all.back().settings.saves_beside = false;
  }
}

void add_trace(const RankNeeds& needs, std::vector<Alternative>& all) {
  if (needs.settings.traced_steps == 0) return;
  all.push_back({"log.trace=false", needs.settings});
  all.back().settings.traced_steps = 0;
}

std::vector<Alternative> alternatives_to(const RankNeeds& needs) {
  std::vector<Alternative> all;
  add_levels(needs, all);
  add_recomputation(needs, all);
  add_smaller_batches(needs, all);
  add_offload(needs, all);
  add_tiles(needs, all);
  add_saves(needs, all);
  add_trace(needs, all);
  return all;
}

std::int64_t declared(const RankNeeds& needs, const train::EngineConfig& settings) {
  return train::RankMemory(settings, needs.at, needs.device).ledger(0).total();
}

/// What every rank gives, by rank. Collective.
std::vector<std::int64_t> of_all_ranks(std::int64_t mine, comm::Communicator& world) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  const std::vector<std::int64_t> ones(all.size(), 1);
  world.host().all_gather(view(std::span(all), Shape{world.size()}), view(std::span(&mine, 1), Shape{1}), ones).wait();
  return all;
}

/// A host's ranks.
struct Host {
  std::string name;
  std::vector<std::size_t> ranks;
  std::int64_t sum(std::span<const std::int64_t> by_rank) const {
    std::int64_t bytes = 0;
    for (const std::size_t rank : ranks) bytes += by_rank[rank];
    return bytes;
  }
};
/// By the host of each rank.
std::vector<Host> hosts_of(const std::vector<std::string>& names) {
  std::vector<Host> hosts;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto known = std::ranges::find(hosts, names[rank], &Host::name);
    Host& host = known == hosts.end() ? hosts.emplace_back(Host{names[rank], {}}) : *known;
    host.ranks.push_back(rank);
  }
  return hosts;
}

std::string name_of(const Host& host) {
  return host.ranks.size() == 1 ? "the run" : fmt::format("the {} ranks of host {}", host.ranks.size(), host.name);
}

std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string largest_owners(const Ledger& ledger) {
  constexpr std::size_t shown = 4;
  std::vector<std::string> texts;
  for (const LedgerTensor& tensor : ledger.tensors()) {
    texts.push_back(fmt::format("{}{}{} {}", tensor.name == name_of(tensor.kind) ? "" : fmt::format("{}: ", name_of(tensor.kind)),
                                tensor.name, tensor.layers > 1 ? fmt::format(" of {} layers", tensor.layers) : "",
                                bytes_text(tensor.bytes)));
    if (texts.size() == shown) break;
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// What settings that learn the same would save of `lacking` bytes on the host. Servers keep the same in all of them, and go
/// through the list by its length alone. Collective.
std::vector<std::string> savings_of(const RankNeeds& needs, const Host& host, std::int64_t lacking, comm::Communicator& world) {
  const std::vector<Alternative> others = needs.serves ? std::vector<Alternative>() : alternatives_to(needs);
  const auto count = static_cast<std::size_t>(std::ranges::max(of_all_ranks(std::ssize(others), world)));
  const std::int64_t now = needs.serves ? 0 : declared(needs, needs.settings);
  std::vector<std::string> savings;
  bool enough = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t saved = needs.serves ? 0 : now - declared(needs, others[i].settings);
    const std::int64_t together = host.sum(of_all_ranks(saved, world));
    if (together <= 0 || needs.serves) continue;
    const bool fits = together >= lacking;
    enough = enough || fits;
    savings.push_back(fmt::format("{} saves {}{}", others[i].words, bytes_text(together), fits ? " and fits" : ""));
  }
  if (!savings.empty() && !enough) savings.emplace_back("none of them alone is enough");
  return savings;
}

/// As rank 0 has it, which trains, and speaks for all. Collective.
std::vector<Problem> told(const RankNeeds& needs, const std::string& message, const std::vector<std::string>& savings,
                          comm::Communicator& world) {
  const std::string whole = fmt::format("{}; the most of rank 0: {}", message, largest_owners(needs.ledger));
  return {{comm::lead_text(world, whole), comm::lead_text(world, fmt::format("{}", fmt::join(savings, "; ")))}};
}

}  // namespace

std::optional<Problem> demand_memory(const RankNeeds& needs, comm::Communicator& world,
                                     const std::optional<io::FreeMemory>& free) {
  const std::int64_t mine = needs.ledger.total();
  const std::vector<std::int64_t> all = of_all_ranks(mine, world);
  const std::vector<Host> hosts = hosts_of(comm::all_texts(world, host_name()));
  if (needs.config.memory.limit) {
    const auto limit = static_cast<std::int64_t>(needs.config.memory.limit->bytes);
    const Host& host = *std::ranges::max_element(hosts, {}, [&](const Host& one) { return one.sum(all); });
    const std::int64_t needed = host.sum(all);
    if (needed > limit) {
      std::vector<std::string> savings = savings_of(needs, host, needed - limit, world);
      savings.push_back(fmt::format("memory.limit={}MiB lets it run", (needed + (1 << 20) - 1) >> 20));
      throw UserError(told(needs,
                           fmt::format("memory.limit = {}: {} need{} {}, {} more", needs.config.memory.limit->text, name_of(host),
                                       host.ranks.size() == 1 ? "s" : "", bytes_text(needed), bytes_text(needed - limit)),
                           savings, world));
    }
  }
  if (needs.settings.copied_pieces > 0) {
    const std::int64_t shared = train::RankMemory(needs.settings, needs.at, needs.device).shared;
    if (std::optional<Problem> problem = lacks_room_for_copies(shared, world)) return problem;
  }
  if (!needs.device.is_host()) return std::nullopt;  // what is its own the ledger does not tell apart
  const std::optional<comm::MemoryShortage> shortage = comm::memory_shortage(world, mine, free);
  if (!shortage) return std::nullopt;
  const Host& host = *std::ranges::find(hosts, shortage->host, &Host::name);
  std::vector<std::string> savings = savings_of(needs, host, shortage->needed - shortage->free.bytes, world);
  if (savings.empty()) savings.emplace_back("a smaller model or block, or more hosts");
  return told(needs, "not enough memory: " + shortage->text(), savings, world).front();
}

void demand_memory(const RankNeeds& needs, comm::Communicator& world) {
  if (std::optional<Problem> problem = demand_memory(needs, world, io::free_memory())) throw UserError({*std::move(problem)});
}

int places_left(const RankNeeds& needs, comm::Communicator& world) {
  const layout::Placement& weights = needs.settings.plan.parameters;
  if (!needs.config.memory.limit || (weights.cut == CutOver::none && weights.tier == layout::Tier::device)) return 0;
  const auto limit = static_cast<std::int64_t>(needs.config.memory.limit->bytes);
  const auto more = [&](std::int64_t kept) {
    train::EngineConfig further = needs.settings;
    further.plan.kept = static_cast<int>(kept);
    return of_all_ranks(declared(needs, further) - declared(needs, needs.settings), world);
  };
  const std::vector<std::int64_t> taken = of_all_ranks(needs.ledger.total(), world), each = more(1),
                                  all = more(needs.settings.model.layers);
  std::int64_t places = 0;  // that there are parts for
  for (std::size_t rank = 0; rank < each.size(); ++rank) places = std::max(places, each[rank] > 0 ? all[rank] / each[rank] : 0);
  for (const Host& host : hosts_of(comm::all_texts(world, host_name()))) {
    const std::int64_t cost = host.sum(each);
    if (cost > 0) places = std::clamp<std::int64_t>((limit - host.sum(taken)) / cost, 0, places);
  }
  return static_cast<int>(places);
}

std::int64_t disk_bytes(const train::EngineConfig& settings, const layout::Coordinates& at, const Ledger& taken) {
  return planner::placed(taken, train::RankMemory(settings, at).spill.bytes()).disk;
}

}  // namespace lockstep::app
