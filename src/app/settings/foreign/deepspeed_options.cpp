#include "app/settings/foreign/deepspeed_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace lockstep::settings {
namespace {

using Kind = Option::Kind;

constexpr Option sets(std::string_view name, std::string_view key) { return {.name = name, .kind = Kind::sets, .key = key}; }
constexpr Option elements(std::string_view name, std::string_view key) {
  return {.name = name, .kind = Kind::elements, .key = key};
}
constexpr Option enables(std::string_view name, std::string_view key, std::string_view value) {
  return {.name = name, .kind = Kind::enables, .key = key, .value = value};
}
constexpr Option idle(std::string_view name) { return {.name = name, .kind = Kind::idle}; }
constexpr Option elsewhere(std::string_view name) { return {.name = name, .kind = Kind::elsewhere}; }

bool off(const Json& value) { return value.is_null() || (value.is_bool() && !value.boolean()); }
bool on(const Json& value) { return value.is_bool() && value.boolean(); }
bool zero(const Json& value) { return value.is_number() && value.number() == 0; }
bool one(const Json& value) { return value.is_number() && value.number() == 1; }
bool at_most_one(const Json& value) { return value.is_null() || (value.is_number() && value.number() <= 1); }
bool fp32(const Json& value) { return value.is_null() || (value.is_string() && value.string() == "fp32"); }
bool linear(const Json& value) { return value.is_string() && value.string() == "linear"; }

constexpr Option only(std::string_view name, bool (*allows)(const Json&), std::string_view reason, std::string_view remedy) {
  return {.name = name, .kind = Kind::only, .allows = allows, .reason = reason, .remedy = remedy};
}
constexpr Option never(std::string_view name, std::string_view reason) { return only(name, off, reason, "leave it out"); }

constexpr std::string_view kUseBf16 = "\"bf16\": {\"enabled\": true} needs no loss scaling";

constexpr std::array kOptions{
    elsewhere("train_batch_size"),
    elsewhere("train_micro_batch_size_per_gpu"),
    elsewhere("gradient_accumulation_steps"),
    sets("steps_per_print", "train.log_interval"),
    sets("gradient_clipping", "optimizer.grad_clip"),

    elsewhere("optimizer.type"),
    elsewhere("optimizer.params.betas"),
    sets("optimizer.params.lr", "optimizer.learning_rate"),
    sets("optimizer.params.eps", "optimizer.eps"),
    sets("optimizer.params.weight_decay", "optimizer.weight_decay"),
    sets("optimizer.params.momentum", "optimizer.momentum"),
    elsewhere("optimizer.params.adam_w_mode"),
    idle("optimizer.params.torch_adam"),
    idle("optimizer.params.fused"),
    only("optimizer.params.bias_correction", on, "moments are always corrected here", "leave it out"),
    never("optimizer.params.amsgrad", "there is no such variant here"),
    never("optimizer.params.nesterov", "there is no such variant here"),
    only("optimizer.params.dampening", zero, "gradients are never damped here", "leave it out"),
    never("optimizer.legacy_fusion", "there is one way to fuse here"),

    elsewhere("scheduler.type"),
    elsewhere("scheduler.params.cos_min_ratio"),
    sets("scheduler.params.warmup_max_lr", "optimizer.learning_rate"),
    sets("scheduler.params.warmup_num_steps", "train.warmup_iters"),
    sets("scheduler.params.total_num_steps", "train.max_iters"),
    only("scheduler.params.warmup_min_lr", zero, "the learning rate rises from 0 here", "\"warmup_min_lr\": 0"),
    only("scheduler.params.warmup_min_ratio", zero, "the learning rate rises from 0 here", "\"warmup_min_ratio\": 0"),
    only("scheduler.params.warmup_type", linear, "the learning rate rises in a straight line here",
         "\"warmup_type\": \"linear\""),
    idle("scheduler.params.last_batch_iteration"),

    enables("bf16.enabled", "train.dtype", "bfloat16"),
    idle("bf16.immediate_grad_update"),
    only("fp16.enabled", off, "there is no fp16 here", kUseBf16),
    idle("fp16.auto_cast"),
    idle("fp16.loss_scale"),
    idle("fp16.initial_scale_power"),
    idle("fp16.loss_scale_window"),
    idle("fp16.hysteresis"),
    idle("fp16.consecutive_hysteresis"),
    idle("fp16.min_loss_scale"),
    only("amp.enabled", off, "there is no automatic mixed precision here", kUseBf16),
    idle("amp.opt_level"),

    sets("zero_optimization.stage", "memory.zero"),
    sets("zero_optimization.overlap_comm", "parallel.overlap"),
    elements("zero_optimization.reduce_bucket_size", "parallel.bucket_bytes"),
    idle("zero_optimization.allgather_partitions"),
    idle("zero_optimization.allgather_bucket_size"),
    idle("zero_optimization.reduce_scatter"),
    idle("zero_optimization.contiguous_gradients"),
    idle("zero_optimization.round_robin_gradients"),
    idle("zero_optimization.sub_group_size"),
    idle("zero_optimization.stage3_prefetch_bucket_size"),
    idle("zero_optimization.stage3_max_live_parameters"),
    idle("zero_optimization.stage3_max_reuse_distance"),
    idle("zero_optimization.stage3_param_persistence_threshold"),
    idle("zero_optimization.stage3_model_persistence_threshold"),
    idle("zero_optimization.stage3_gather_16bit_weights_on_model_save"),
    idle("zero_optimization.stage3_gather_fp16_weights_on_model_save"),
    idle("zero_optimization.ignore_unused_parameters"),
    idle("zero_optimization.load_from_fp32_weights"),
    idle("zero_optimization.elastic_checkpoint"),
    idle("zero_optimization.legacy_stage1"),
    idle("zero_optimization.memory_efficient_linear"),
    idle("zero_optimization.log_trace_cache_warnings"),
    only("zero_optimization.zero_hpz_partition_size", at_most_one, "hosts are not told by a number of ranks",
         "memory.zero_group=node with parallel.ranks_per_host"),
    only("zero_optimization.mics_shard_size", at_most_one, "hosts are not told by a number of ranks",
         "memory.zero_group=node with parallel.ranks_per_host"),
    never("zero_optimization.zero_quantized_weights", "weights are sent as they are here"),
    never("zero_optimization.zero_quantized_nontrainable_weights", "weights are sent as they are here"),
    never("zero_optimization.zero_quantized_gradients", "gradients are added in fp32 here"),
    sets("zero_optimization.offload_optimizer.device", "memory.offload_optimizer"),
    sets("zero_optimization.offload_optimizer.nvme_path", "memory.nvme_path"),
    idle("zero_optimization.offload_optimizer.pin_memory"),
    idle("zero_optimization.offload_optimizer.buffer_count"),
    idle("zero_optimization.offload_optimizer.fast_init"),
    idle("zero_optimization.offload_optimizer.pipeline_read"),
    idle("zero_optimization.offload_optimizer.pipeline_write"),
    only("zero_optimization.offload_optimizer.ratio", one, "all of the optimizer's state is offloaded, or none", "\"ratio\": 1"),
    sets("zero_optimization.offload_param.device", "memory.offload_params"),
    sets("zero_optimization.offload_param.nvme_path", "memory.nvme_path"),
    idle("zero_optimization.offload_param.pin_memory"),
    idle("zero_optimization.offload_param.buffer_count"),
    idle("zero_optimization.offload_param.buffer_size"),
    idle("zero_optimization.offload_param.max_in_cpu"),
    never("zero_optimization.cpu_offload", "its name is old"),

    never("activation_checkpointing.partition_activations", "activations are cut by parallel.sequence"),
    enables("activation_checkpointing.cpu_checkpointing", "memory.offload_activations", "cpu"),
    idle("activation_checkpointing.contiguous_memory_optimization"),
    idle("activation_checkpointing.number_checkpoints"),
    idle("activation_checkpointing.synchronize_checkpoint_boundary"),
    idle("activation_checkpointing.profile"),

    idle("comms_logger"),
    idle("flops_profiler"),
    idle("wall_clock_breakdown"),
    idle("memory_breakdown"),
    enables("tensorboard.enabled", "log.tensorboard", "true"),
    idle("tensorboard.output_path"),
    idle("tensorboard.job_name"),
    idle("wandb"),
    idle("csv_monitor"),
    idle("dump_state"),
    idle("aio"),
    idle("checkpoint"),
    idle("zero_allow_untested_optimizer"),
    idle("zero_force_ds_cpu_optimizer"),
    idle("disable_allgather"),
    never("prescale_gradients", "gradients are added up and divided once here"),
    only("gradient_predivide_factor", one, "gradients are added up and divided once here", "leave it out"),
    only("communication_data_type", fp32, "gradients are added in fp32 here", "\"fp32\", or leave it out"),
    only("data_types.grad_accum_dtype", fp32, "gradients are added in fp32 here", "\"fp32\", or leave it out"),
    never("sparse_gradients", "gradients are dense here"),
    never("sparse_attention", "attention is dense here"),
    never("elasticity.enabled", "the number of ranks changes between runs, by a resume"),
    never("autotuning.enabled", "there is no such search here"),
    never("curriculum_learning.enabled", "samples are drawn as data.order says"),
    never("data_efficiency.enabled", "samples are drawn as data.order says"),
    never("progressive_layer_drop.enabled", "every layer trains"),
    never("eigenvalue.enabled", "there is nothing that needs it"),
    never("quantize_training.enabled", "weights are not quantised"),
    never("compression_training", "weights are not compressed"),
};

}  // namespace

std::span<const Option> options() { return kOptions; }

const Option* find_option(std::string_view name) {
  const auto* found = std::ranges::find(kOptions, name, &Option::name);
  return found == kOptions.end() ? nullptr : found;
}

bool has_options(std::string_view group) {
  return std::ranges::any_of(kOptions, [&](const Option& option) {
    return option.name.size() > group.size() && option.name.starts_with(group) && option.name[group.size()] == '.';
  });
}

std::string nearest_option(std::string_view name) {
  std::vector<std::string> names;
  for (const Option& option : kOptions) names.emplace_back(option.name);
  const std::string near = nearest_name(name, names);
  return near.empty() ? "docs/deepspeed.md lists what is" : fmt::format("did you mean {}?", near);
}

}  // namespace lockstep::settings
