#include "app/plan/foreign/deepspeed_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "app/settings/foreign/deepspeed.h"
#include "app/settings/foreign/deepspeed_options.h"
#include "app/settings/keys.h"
#include "base/error.h"
#include "base/json.h"

namespace lockstep::app::deepspeed {
namespace {

/// Options of layouts that train refuses, for it has settings for them.
struct Degree {
  std::string_view option;
  std::int64_t layout::ParallelWish::* degree;
};
constexpr std::array degrees{Degree{"tensor_parallel.autotp_size", &layout::ParallelWish::tp},
                             Degree{"pipeline.stages", &layout::ParallelWish::pp},
                             Degree{"sequence_parallel_size", &layout::ParallelWish::cp}};
constexpr std::string_view fp16 = "fp16.enabled", checkpointing = "activation_checkpointing",
                           of_node = "zero_optimization.mics_shard_size";

/// The option that stands for one of our settings.
std::string_view option_of(std::string_view key) {
  for (const settings::Option& option : settings::options()) {
    if (option.key == key) return option.name;
  }
  throw BrokenRule(fmt::format("DeepSpeed has an option for {}", key));
}

/// Whether a layout is read from the option.
bool is_layouts(const settings::Option& option) {
  return option.name == settings::samples_of_step || option.key.starts_with("model.") || option.key.starts_with("memory.") ||
         option.key.starts_with("parallel.") || option.key == "optimizer.gas" || option.key == "train.dtype";
}

void put(Json& object, std::string_view option, Json value) {
  const std::size_t dot = option.find('.');
  if (dot == option.npos) {
    object.set(std::string(option), std::move(value));
    return;
  }
  const std::string group(option.substr(0, dot));
  Json inner = object.find(group) != nullptr ? *object.find(group) : Json(Json::Object{});
  put(inner, option.substr(dot + 1), std::move(value));
  object.set(group, std::move(inner));
}

/// Adds what keeps DeepSpeed from starting (runtime/config.py, runtime/pipe/engine.py). `half`: fp16 is on, which `config` does
/// not say.
std::vector<Problem> why_not_started(const RunConfig& config, bool half, const std::string& file, std::vector<Problem> problems) {
  if (half && dtype_of(config) == DType::bf16) {
    problems.push_back({fmt::format("{}: {} and bf16.enabled: DeepSpeed starts with one of them", file, fp16),
                        "\"fp16\": {\"enabled\": false}"});
  }
  if (const int level = zero_level(config); level >= 2 && config.parallel.pp > 1) {
    problems.push_back({fmt::format("{}: zero_optimization.stage = {} and pipeline.stages = {}: DeepSpeed's pipelines start with "
                                    "ZeRO 0 or 1 alone",
                                    file, level, config.parallel.pp),
                        "\"stage\": 1, or \"stages\": 1"});
  }
  return problems;
}

}  // namespace

std::string written(const planner::Work& work, const planner::Candidate& candidate, std::int64_t batch) {
  const layout::ParallelPlan& plan = candidate.plan;
  Json file = Json::Object{};
  const auto set = [&](std::string_view key, Json value) { put(file, option_of(key), std::move(value)); };
  put(file, settings::samples_of_step, batch);
  set("model.batch_size", candidate.samples);
  set("optimizer.gas", plan.microbatches);
  set("train.dtype", work.system.element_bytes == 2);
  set("memory.zero", layout::zero_level(plan));
  set("parallel.overlap", true);
  const auto offload = [&](std::string_view key, layout::Tier tier) {
    if (tier == layout::Tier::device) return;
    set(key, tier == layout::Tier::host ? "cpu" : "nvme");
    const std::string option(option_of(key));
    if (tier == layout::Tier::disk) put(file, option.substr(0, option.rfind('.')) + ".nvme_path", "/nvme");
  };
  offload("memory.offload_optimizer", plan.optimizer.tier);
  offload("memory.offload_params", plan.parameters.tier);
  if (plan.recompute.kind == layout::Recompute::Kind::full)
    put(file, checkpointing, Json::Object{{"number_checkpoints", work.model.layers}});
  return file.dump(1) + "\n";
}

bool is_own(std::string_view head) { return head.starts_with(fmt::format("{{\n \"{}\": ", settings::samples_of_step)); }

ForeignJob read(std::string_view text, const std::string& file) {
  Json options = Json::parse(text, file);
  ForeignJob job{.form = "DeepSpeed's configuration", .system = planner::deepspeed};
  RunConfig& config = job.config;
  std::vector<Problem> problems;
  for (const Degree& each : degrees) {
    const Json* value = settings::find_value(options, each.option);
    if (value == nullptr) continue;
    if (value->is_int() && value->integer() >= 1 && value->integer() <= 1 << 16) {
      config.parallel.*each.degree = value->integer();
    } else {
      problems.push_back({fmt::format("{}: {} = {}: must be a number of ranks", file, each.option, value->dump()),
                          fmt::format("\"{}\": 1", each.option)});
    }
    put(options, each.option, 1);
  }
  if (const Json* shard = settings::find_value(options, of_node); shard != nullptr && shard->is_int() && shard->integer() > 1) {
    config.memory.zero_group = layout::CutOver::host;
    job.notes.push_back(fmt::format("{} = {}: counted as the devices of a node", of_node, shard->integer()));
    put(options, of_node, 1);
  }
  const Json* half = settings::find_value(options, fp16);
  const bool is_half = half != nullptr && half->is_bool() && half->boolean();
  if (is_half) put(options, fp16, false);
  const Json* again = settings::find_value(options, checkpointing);
  if (again != nullptr && again->is_object()) config.memory.recompute.kind = layout::Recompute::Kind::full;
  const settings::DeepSpeed read = settings::read_deepspeed(options.dump(), file);
  for (const settings::DeepSpeed::Assignment& one : read.assignments)
    settings::assign(config, *settings::find_key(one.key), one.value);
  problems = why_not_started(config, is_half, file, std::move(problems));
  if (is_half) config.train.dtype = {DType::bf16, true};
  job.has_samples = read.micro_batch.value.has_value();
  job.has_steps = read.accumulation.value.has_value();
  job.batch = read.train_batch.value;
  for (const Problem& problem : read.problems) {
    const bool counts = std::ranges::any_of(settings::options(), [&](const settings::Option& option) {
      return is_layouts(option) && problem.message.starts_with(fmt::format("{}: {} ", file, option.name));
    });
    if (counts) problems.push_back(problem);
    if (!counts) job.notes.push_back(fmt::format("not counted: {} ({})", problem.message, problem.remedy));
  }
  job.ignored = std::ssize(read.idle);
  const int level = zero_level(config);
  if (settings::find_value(options, option_of("parallel.overlap")) == nullptr) config.parallel.overlap = level == 3;
  if (config.parallel.cp > 1) config.parallel.context = layout::ContextMethod::ulysses;
  if (again == nullptr) job.notes.emplace_back("whether blocks are run again is not in the file: --recompute full says so");
  job.system.tiled_attention = true;
  if (!problems.empty()) throw UserError(std::move(problems));
  return job;
}

}  // namespace lockstep::app::deepspeed
