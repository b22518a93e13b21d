#include "app/plan/winner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "app/folder/output_file.h"
#include "app/settings/keys.h"
#include "base/error.h"
#include "base/json.h"
#include "base/shell.h"
#include "layout/plan_fields.h"

namespace lockstep::app {
namespace {

using layout::PlanField;

/// Whether a field has another value than in a run that nobody laid out.
bool is_asked(const layout::FieldRow& row, const layout::PlanWish& wish) {
  return row.value.get(wish).dump() != row.value.get(layout::PlanWish()).dump();
}

/// Whether another number of ranks a host would make another plan of the same settings.
bool depends_on_hosts(const layout::ParallelPlan& plan) {
  return plan.parameters.cut == layout::CutOver::host || (plan.cp > 1 && plan.context == layout::ContextMethod::ulysses_ring);
}

using Lines = std::vector<std::string>;

std::string lines_of(const Lines& arguments) { return fmt::format("{}\n", fmt::join(arguments, "\n")); }

std::string megatron_arguments(const planner::Work& work, const planner::Candidate& candidate, std::int64_t batch) {
  const arch::ModelConfig& model = work.model;
  const layout::ParallelPlan& plan = candidate.plan;
  Lines all{fmt::format("--num-layers {}", model.layers),
            fmt::format("--hidden-size {}", model.width),
            fmt::format("--ffn-hidden-size {}", model.ffn_width),
            fmt::format("--num-attention-heads {}", model.heads),
            fmt::format("--seq-length {}", work.positions),
            fmt::format("--max-position-embeddings {}", work.positions),
            fmt::format("--micro-batch-size {}", candidate.samples),
            fmt::format("--global-batch-size {}", batch),
            fmt::format("--tensor-model-parallel-size {}", plan.tp),
            fmt::format("--pipeline-model-parallel-size {}", plan.pp),
            fmt::format("--context-parallel-size {}", plan.cp)};
  const auto where = [&](bool asked, std::string argument) {
    if (asked) all.push_back(std::move(argument));
  };
  where(model.kv_heads != model.heads, fmt::format("--group-query-attention\n--num-query-groups {}", model.kv_heads));
  where(model.gated, "--swiglu");
  where(model.norm == arch::NormKind::rmsnorm, "--normalization RMSNorm");
  where(model.position == arch::PositionKind::rope, "--position-embedding-type rope");
  where(!model.bias, "--disable-bias-linear");
  where(!model.tied, "--untie-embeddings-and-output-weights");
  where(work.system.element_bytes == 2, "--bf16");
  where(plan.sequence, "--sequence-parallel");
  where(plan.chunks > 1, fmt::format("--num-virtual-stages-per-pipeline-rank {}", plan.chunks));
  where(layout::zero_level(plan) > 0, "--use-distributed-optimizer");
  where(plan.recompute.kind == layout::Recompute::Kind::selective, "--recompute-granularity selective");
  where(plan.recompute.kind == layout::Recompute::Kind::full,
        "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1");
  return lines_of(all);
}

std::string torchtitan_arguments(const planner::Work& work, const planner::Candidate& candidate, std::int64_t batch) {
  const layout::ParallelPlan& plan = candidate.plan;
  const std::int64_t local = plan.pp > 1 ? candidate.samples * plan.microbatches : candidate.samples;
  Lines all{fmt::format("--training.local_batch_size {}", local),
            fmt::format("--training.global_batch_size {}", batch),
            fmt::format("--training.seq_len {}", work.positions),
            fmt::format("--parallelism.data_parallel_shard_degree {}", plan.dp),
            fmt::format("--parallelism.tensor_parallel_degree {}", plan.tp),
            fmt::format("--parallelism.context_parallel_degree {}", plan.cp),
            fmt::format("--parallelism.pipeline_parallel_degree {}", plan.pp),
            fmt::format("--activation_checkpoint.mode {}", layout::to_string(plan.recompute)),
            "--compile.enable"};
  if (plan.recompute.kind == layout::Recompute::Kind::selective)
    all.emplace_back("--activation_checkpoint.selective_ac_option op");
  if (plan.pp > 1) {
    all.push_back(fmt::format("--parallelism.pipeline_parallel_schedule {}", plan.chunks > 1 ? "Interleaved1F1B" : "1F1B"));
    all.push_back(fmt::format("--parallelism.pipeline_parallel_microbatch_size {}", candidate.samples));
  }
  return lines_of(all);
}

std::string deepspeed_file(const planner::Work& work, const planner::Candidate& candidate, std::int64_t batch) {
  const layout::ParallelPlan& plan = candidate.plan;
  Json zero = Json::Object{{"stage", layout::zero_level(plan)}, {"overlap_comm", true}};
  const auto offload = [&](std::string_view part, layout::Tier tier) {
    if (tier == layout::Tier::host) zero.set(fmt::format("offload_{}", part), Json::Object{{"device", "cpu"}});
    if (tier == layout::Tier::disk)
      zero.set(fmt::format("offload_{}", part), Json::Object{{"device", "nvme"}, {"nvme_path", "/nvme"}});
  };
  offload("optimizer", plan.optimizer.tier);
  offload("param", plan.parameters.tier);
  return Json(Json::Object{{"train_batch_size", batch},
                           {"train_micro_batch_size_per_gpu", candidate.samples},
                           {"gradient_accumulation_steps", plan.microbatches},
                           {"bf16", Json::Object{{"enabled", work.system.element_bytes == 2}}},
                           {"zero_optimization", std::move(zero)}})
             .dump(1) +
         "\n";
}

}  // namespace

std::string exported(const planner::Work& work, const planner::Candidate& candidate, std::int64_t global_batch) {
  const std::string_view system = work.system.name;
  if (system == planner::megatron.name) return megatron_arguments(work, candidate, global_batch);
  if (system == planner::torchtitan.name) return torchtitan_arguments(work, candidate, global_batch);
  if (system == planner::deepspeed.name) return deepspeed_file(work, candidate, global_batch);
  throw UserError(fmt::format("--out: the layout of {} is in its users' code, not in a file", system),
                  "leave --out away; or --system torchtitan, megatron or deepspeed");
}

bool is_own_winner(std::string_view head) {
  return is_own_recipe(head) || head.starts_with("--num-layers ") || head.starts_with("--training.local_batch_size ") ||
         head.starts_with("{\n \"train_batch_size\": ");
}

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
