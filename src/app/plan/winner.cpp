#include "app/plan/winner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "app/settings/keys.h"
#include "base/error.h"
#include "base/shell.h"

namespace lockstep::app {
namespace {

std::string_view place_of(layout::Tier tier) {
  return tier == layout::Tier::host ? "cpu" : tier == layout::Tier::disk ? "nvme" : "none";
}

}  // namespace

std::vector<std::string> settings_of(const planner::Work& work, const planner::Candidate& candidate) {
  const layout::ParallelPlan& plan = candidate.plan;
  std::vector<std::string> settings{work.system.element_bytes == 4 ? "train.dtype=fp32" : "train.dtype=bf16",
                                    fmt::format("model.batch_size={}", candidate.samples),
                                    fmt::format("optimizer.gas={}", plan.microbatches),
                                    fmt::format("parallel.dp={}", plan.dp),
                                    fmt::format("memory.zero={}", layout::zero_level(plan)),
                                    fmt::format("memory.recompute={}", layout::to_string(plan.recompute))};
  const auto add = [&](bool needed, std::string setting) {
    if (needed) settings.push_back(std::move(setting));
  };
  add(plan.tp > 1, fmt::format("parallel.tp={}", plan.tp));
  add(plan.sequence, "parallel.sequence=true");
  add(plan.cp > 1, fmt::format("parallel.cp={}", plan.cp));
  add(plan.cp > 1, fmt::format("parallel.context={}", layout::to_string(plan.context)));
  add(plan.pp > 1, fmt::format("parallel.pp={}", plan.pp));
  add(plan.pp > 1, fmt::format("parallel.schedule={}", plan.schedule));
  add(plan.chunks > 1, fmt::format("parallel.virtual_stages={}", plan.chunks));
  add(plan.optimizer.cut == layout::CutOver::host, "memory.zero_group=node");
  add(plan.tiles.cut(), fmt::format("memory.tiles={}", layout::to_string(plan.tiles)));
  add(plan.optimizer.tier != layout::Tier::device, fmt::format("memory.offload_optimizer={}", place_of(plan.optimizer.tier)));
  add(plan.parameters.tier != layout::Tier::device, fmt::format("memory.offload_params={}", place_of(plan.parameters.tier)));
  const std::array tiers{plan.parameters.tier, plan.optimizer.tier, plan.activations};
  add(plan.activations != layout::Tier::device, fmt::format("memory.offload_activations={}", place_of(plan.activations)));
  add(std::ranges::count(tiers, layout::Tier::disk) > 0, "memory.nvme_path=.");
  return settings;
}

std::string command_of(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate,
                       const std::string& recipe) {
  const std::string launch = fmt::format("lockstep launch -n {} --ppn {} -- train", work.machine.ranks(), work.machine.devices);
  if (!recipe.empty()) return fmt::format("{} {}", launch, shell_words({"--config", recipe}));
  if (model.setting.empty()) return fmt::format("{} --config F.toml, which --out F.toml writes", launch);
  return fmt::format("{} {} model.block_size={} {}", launch, model.setting, work.positions,
                     fmt::join(settings_of(work, candidate), " "));
}

std::string recipe_of(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate) {
  RunConfig config = model.config;
  for (const std::string& setting : settings_of(work, candidate)) {
    const std::size_t equals = setting.find('=');
    const settings::Key* key = settings::find_key(setting.substr(0, equals));
    ensure(key != nullptr, "what the planner sets is a setting");
    const auto problem = assign(config, *key, settings::value_from_text(*key, setting.substr(equals + 1)));
    ensure(!problem, "what the planner sets is allowed");
  }
  return to_toml(config);
}

}  // namespace lockstep::app
