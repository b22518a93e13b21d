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
constexpr Option elsewhere(std::string_view name, std::string_view key = "") {
  return {.name = name, .kind = Kind::elsewhere, .key = key};
}

bool off(const Json& value) { return value.is_null() || (value.is_bool() && !value.boolean()); }
bool on(const Json& value) { return value.is_bool() && value.boolean(); }
bool zero(const Json& value) { return value.is_number() && value.number() == 0; }
bool one(const Json& value) { return value.is_number() && value.number() == 1; }
bool at_most_one(const Json& value) { return value.is_null() || (value.is_number() && value.number() <= 1); }
bool fp32(const Json& value) { return value.is_null() || (value.is_string() && value.string() == "fp32"); }
bool mean(const Json& value) { return value.is_string() && value.string() == "mean"; }
bool linear(const Json& value) { return value.is_string() && value.string() == "linear"; }

constexpr Option only(std::string_view name, bool (*allows)(const Json&), std::string_view reason, std::string_view remedy) {
  return {.name = name, .kind = Kind::only, .allows = allows, .reason = reason, .remedy = remedy};
}
constexpr Option never(std::string_view name, std::string_view reason) { return only(name, off, reason, "leave it out"); }

constexpr std::string_view kUseBf16 = "\"bf16\": {\"enabled\": true} needs no loss scaling";

constexpr std::array kOptions{
    elsewhere(samples_of_step),
    elsewhere(samples_of_microbatch, "model.batch_size"),
    elsewhere(microbatches_of_step, "optimizer.gas"),
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
    enables("bfloat16.enabled", "train.dtype", "bfloat16"),
    enables("bf16.bf16_optimizer_states", "optimizer.moments", "bf16"),
    only("bf16.bf16_master_weights_and_grads", off, "gradients are added in fp32 here",
         "optimizer.master_weights=false keeps weights in bf16 alone"),
    idle("bf16.immediate_grad_update"),
    idle("bf16.check_grad_overflow"),
    idle("bf16.check_overflow"),
    only("torch_autocast.enabled", off, "one setting is the type of weights and activations", kUseBf16),
    only("fp16.enabled", off, "there is no fp16 here: bf16 has the range of fp32 in as many bytes, and needs no loss scaler",
         kUseBf16),
    idle("fp16.auto_cast"),
    idle("fp16.loss_scale"),
    idle("fp16.initial_scale_power"),
    idle("fp16.loss_scale_window"),
    idle("fp16.hysteresis"),
    idle("fp16.consecutive_hysteresis"),
    idle("fp16.min_loss_scale"),
    idle("fp16.fp16_master_weights_and_grads"),
    only("amp.enabled", off, "there is no automatic mixed precision here", kUseBf16),

    sets("zero_optimization.stage", "memory.zero"),
    sets("zero_optimization.overlap_comm", "parallel.overlap"),
    elements("zero_optimization.reduce_bucket_size", "parallel.bucket_bytes"),
    idle("zero_optimization.allgather_partitions"),
    idle("zero_optimization.allgather_bucket_size"),
    idle("zero_optimization.reduce_scatter"),
    idle("zero_optimization.contiguous_gradients"),
    idle("zero_optimization.round_robin_gradients"),
    idle("zero_optimization.sub_group_size"),
    idle("zero_optimization.prefetch_bucket_size"),
    idle("zero_optimization.max_live_parameters"),
    idle("zero_optimization.max_reuse_distance"),
    idle("zero_optimization.param_persistence_threshold"),
    idle("zero_optimization.model_persistence_threshold"),
    idle("zero_optimization.gather_16bit_weights_on_model_save"),
    idle("zero_optimization.module_granularity_threshold"),
    idle("zero_optimization.use_all_reduce_for_fetch_params"),
    idle("zero_optimization.allgather_sequential"),
    idle("zero_optimization.stage3_module_granularity_threshold"),
    idle("zero_optimization.stage3_use_all_reduce_for_fetch_params"),
    idle("zero_optimization.stage3_allgather_sequential"),
    idle("zero_optimization.use_multi_rank_bucket_allreduce"),
    idle("zero_optimization.mics_hierarchical_params_gather"),
    idle("zero_optimization.pipeline_loading_checkpoint"),
    idle("zero_optimization.override_module_apply"),
    idle("zero_optimization.enable_sanity_checks"),
    idle("zero_optimization.save_muon_momentum_buffer_in_memory"),
    idle("zero_optimization.leaf_module"),
    never("zero_optimization.zenflow", "every update is made in its own step here"),
    never("zero_optimization.zeropp_loco_param", "gradients are added in fp32 here"),
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
    idle("zero_optimization.offload_optimizer.pipeline"),
    idle("zero_optimization.offload_optimizer.super_offload"),
    idle("zero_optimization.offload_optimizer.cpuadam_cores_perc"),
    idle("zero_optimization.offload_optimizer.pipeline_read"),
    idle("zero_optimization.offload_optimizer.pipeline_write"),
    only("zero_optimization.offload_optimizer.ratio", one, "all of the optimizer's state is offloaded, or none", "\"ratio\": 1"),
    sets("zero_optimization.offload_param.device", "memory.offload_params"),
    sets("zero_optimization.offload_param.nvme_path", "memory.nvme_path"),
    idle("zero_optimization.offload_param.pin_memory"),
    idle("zero_optimization.offload_param.buffer_count"),
    idle("zero_optimization.offload_param.buffer_size"),
    idle("zero_optimization.offload_param.max_in_cpu"),
    never("zero_optimization.cpu_offload", "its name is old, offload_optimizer the new one"),
    never("zero_optimization.cpu_offload_param", "its name is old, offload_param the new one"),
    never("zero_optimization.cpu_offload_params", "its name is old, offload_param the new one"),
    idle("zero_optimization.cpu_offload_use_pin_memory"),

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
    idle("comet"),
    idle("monitor_config"),
    idle("timers"),
    idle("log_level"),
    idle("compile"),
    idle("graph_harvesting"),
    idle("vocabulary_size"),
    idle("use_data_before_expert_parallelism"),
    idle("use_node_local_storage"),
    enables("dataloader_drop_last", "data.epoch_end", "drop"),
    never("nebula.enabled", "checkpoints are written by this program alone"),
    never("hybrid_engine.enabled", "text is written by a command of its own"),
    never("expert_parallel.enabled", "there are no experts here"),
    only("managed_gradient_accumulation", on, "a step's micro-batches are always counted here", "leave it out"),
    only("gradient_allreduce_op", mean, "gradients are divided by the samples of a step here", "\"mean\", or leave it out"),
    only("tensor_parallel.autotp_size", at_most_one, "layers are divided by a setting here", "parallel.tp=N"),
    idle("tensor_parallel.preset_model"),
    idle("tensor_parallel.partition_config"),
    idle("tensor_parallel.tp_overlap_comm"),
    idle("tensor_parallel.tp_grain_size"),
    idle("tensor_parallel.dtype"),
    only("sequence_parallel_size", at_most_one, "sequences are divided by a setting here", "parallel.cp=N"),
    idle("data_parallel_size"),
    only("pipeline.stages", at_most_one, "layers are divided by a setting here", "parallel.pp=N"),
    only("pipeline.activation_checkpoint_interval", zero, "blocks are made again by a setting here", "memory.recompute=every:K"),
    idle("pipeline.partition"),
    idle("pipeline.seed_layers"),
    idle("pipeline.pipe_partitioned"),
    idle("pipeline.grad_partitioned"),
    idle("dump_state"),
    idle("aio"),
    idle("checkpoint"),
    idle("zero_allow_untested_optimizer"),
    idle("zero_force_ds_cpu_optimizer"),
    idle("disable_allgather"),
    never("prescale_gradients", "gradients are added up and divided once here"),
    only("gradient_predivide_factor", one, "gradients are added up and divided once here", "leave it out"),
    only("communication_data_type", fp32, "gradients are added in fp32 here", "\"fp32\", or leave it out"),
    only("seq_parallel_communication_data_type", fp32, "sums over sequences are made in fp32 here", "\"fp32\", or leave it out"),
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

const Json* find_value(const Json& file, std::string_view option) {
  const std::size_t dot = option.find('.');
  const Json* value = file.is_object() ? file.find(option.substr(0, dot)) : nullptr;
  return value == nullptr || dot == option.npos ? value : find_value(*value, option.substr(dot + 1));
}

const Option* find_option(std::string_view name) {
  const auto* found = std::ranges::find(kOptions, name, &Option::name);
  return found == kOptions.end() ? nullptr : found;
}

bool has_options(std::string_view group) {
  return std::ranges::any_of(kOptions, [&](const Option& option) {
    return option.name.size() > group.size() && option.name.starts_with(group) && option.name[group.size()] == '.';
  });
}

const Option* only_switch(const std::string& group) {
  const auto within = [&](const Option& option) { return option.name.starts_with(group + "."); };
  const Option* row = find_option(group + ".enabled");
  return row != nullptr && row->kind == Kind::only && std::ranges::count_if(kOptions, within) == 1 ? row : nullptr;
}

std::string nearest_option(std::string_view name) {
  std::vector<std::string> names;
  for (const Option& option : kOptions) names.emplace_back(option.name);
  const std::string near = nearest_name(name, names);
  return near.empty() ? "docs/deepspeed.md lists what is" : fmt::format("did you mean {}?", near);
}

}  // namespace lockstep::settings
