#include "app/plan/search/winner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "app/settings/keys.h"
#include "base/error.h"
#include "base/shell.h"
#include "layout/plan_fields.h"

namespace lockstep::app {
namespace {

using layout::PlanField;

/// Whether a field differs from its default.
bool is_asked(const layout::FieldRow& row, const layout::PlanWish& wish) {
  return row.value.get(wish).dump() != row.value.get(layout::PlanWish()).dump();
}

/// Whether another number of ranks a host would make another plan of the same settings.
bool depends_on_hosts(const layout::ParallelPlan& plan) {
  return plan.parameters.cut == layout::CutOver::host || (plan.cp > 1 && plan.context == layout::ContextMethod::ulysses_ring);
}

}  // namespace

std::vector<std::string> settings_of(const planner::Work& work, const planner::Candidate& candidate) {
  layout::PlanWish wish = layout::wish_of(candidate.plan);
  wish.memory.zero = layout::zero_level(candidate.plan);
  wish.parallel.split.reset();  // a run balances its stages itself
  if (!depends_on_hosts(candidate.plan)) wish.parallel.ranks_per_host.reset();
  std::vector<std::string> settings{work.system.element_bytes == 4 ? "train.dtype=fp32" : "train.dtype=bf16",
                                    fmt::format("model.batch_size={}", candidate.samples)};
  const auto add = [&](const layout::FieldRow& row) {
    settings.push_back(fmt::format("{}={}", row.setting, settings::shown(row.value.get(wish))));
  };
  constexpr std::array always{PlanField::gas, PlanField::dp, PlanField::zero, PlanField::recompute};
  for (const PlanField field : always) add(layout::row_of(field));
  for (const layout::FieldRow* row : layout::listed_fields()) {
    const bool asked = is_asked(*row, wish) || (row->said_with && is_asked(layout::row_of(*row->said_with), wish));
    if (asked && std::ranges::find(always, row->field) == always.end()) add(*row);
  }
  const std::array places{wish.memory.offload_params, wish.memory.offload_optimizer, wish.memory.offload_activations};
  if (std::ranges::find(places, layout::OffloadTo::nvme) != places.end()) settings.emplace_back("memory.nvme_path=.");
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

RunConfig recipe_of(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate) {
  RunConfig config = model.config;
  // Plans do not tell these settings apart, so they are the model file's.
  layout::PlanWish wish;
  wish.parallel.bucket_bytes = config.parallel.bucket_bytes;
  wish.parallel.overlap = config.parallel.overlap;
  set_plan_wish(config, wish);
  for (const std::string& setting : settings_of(work, candidate)) {
    const std::size_t equals = setting.find('=');
    const settings::Key* key = settings::find_key(setting.substr(0, equals));
    ensure(key != nullptr, "what the planner sets is a setting");
    const auto problem = assign(config, *key, settings::value_from_text(*key, setting.substr(equals + 1)));
    ensure(!problem, "what the planner sets is allowed");
  }
  return config;
}

}  // namespace lockstep::app
