#include "app/settings/idle.h"

#include <algorithm>
#include <memory>

#include "app/settings/backends.h"
#include "app/settings/pipeline_settings.h"
#include "app/settings/run_layout.h"
#include "layout/pipeline/schedules.h"
#include "ops/cpu/options.h"
#include "train/optimizer/optimizer.h"

namespace lockstep::settings {
namespace {

using Facts = IdleFacts;

bool always(const Facts&) { return true; }
bool eval_only(const Facts& facts) { return facts.config.train.eval_only; }
bool one_rank(const Facts& facts) { return facts.ranks == 1; }
bool constant_rate(const Facts& facts) { return !facts.config.optimizer.decay_lr; }
bool no_rope(const Facts& facts) { return facts.config.model.position != arch::PositionKind::rope; }

std::unique_ptr<train::Optimizer> method_of(const Facts& facts) {
  const app::RunConfig::Optimizer& optimizer = facts.config.optimizer;
  return train::make_optimizer({.name = optimizer.name, .momentum = static_cast<float>(optimizer.momentum)});
}
bool has_momentum(const Facts& facts) { return method_of(facts)->describe().find("momentum") != nullptr; }
bool has_no_moments(const Facts& facts) { return method_of(facts)->describe().find("beta1") == nullptr; }
bool keeps_no_slots(const Facts& facts) { return method_of(facts)->slots().empty(); }

/// Whether the scaling of rotary positions is none of these.
template <arch::RopeScaling... kinds>
bool is_scaled_otherwise(const Facts& facts) {
  return ((facts.config.model.rope_scaling != kinds) && ...);
}

bool no_pairs(const Facts& facts) { return facts.config.train.objective != train::Objective::dpo; }
bool no_samples(const Facts& facts) { return facts.config.sample.tokens == 0; }
bool one_pipeline_rank(const Facts& facts) { return facts.config.parallel.pp == 1; }
bool servers(const Facts& facts) { return facts.config.train.backend == app::BackendKind::ps; }

// The ranks that have the same parameters and divide samples or positions.
bool none_shares_parameters(const Facts& facts) {
  if (!facts.ranks) return false;
  const layout::ParallelPlan plan = app::layout_of(facts.config, app::workers_of(facts.config, *facts.ranks));
  return plan.dp * plan.cp == 1 && !servers(facts);
}
bool one_replica(const Facts& facts) { return facts.ranks && app::replicas_of(facts.config, *facts.ranks) == 1; }
bool below_zero_3(const Facts& facts) { return app::zero_level(facts.config) < 3 || none_shares_parameters(facts); }

// What "cpu" names is the device's own memory there.
bool weights_stay(const Facts& facts) {
  const app::OffloadTo place = facts.config.memory.offload_params;
  return place == app::OffloadTo::none || (place == app::OffloadTo::cpu && facts.config.train.device != DeviceKind::cuda);
}
bool weights_lie_whole(const Facts& facts) { return below_zero_3(facts) && weights_stay(facts); }

// One rank's list of passes may still be another one's: gpipe makes all forward passes first.
bool usual_passes(const Facts& facts) {
  const layout::NamedSchedule* schedule = layout::find_schedule(facts.config.parallel.schedule);
  if (facts.config.parallel.pp > 1 || schedule == nullptr) return false;
  const layout::PipelineShape alone{1, 1, static_cast<int>(facts.config.optimizer.gas)};
  if (!layout::check(*schedule, alone).empty()) return false;  // it is refused
  return layout::actions_of(*schedule, alone) == layout::actions_of(*layout::find_schedule("1f1b"), alone);
}

bool ends_with_the_run(const Facts& facts) { return train::ends_with_run(facts.config.optimizer.schedule); }

// Recorded for those who compare runs with WordPlay's or nanoGPT's.
std::vector<IdleRule> recorded() {
  return {
      {{"train.framework"}, always, "recorded only: there is one framework here"},
      {{"train.port"}, always, "recorded only: ranks find each other through mpiexec, srun or their process"},
      {{"train.ngpus"}, always, "recorded only: --ranks, mpiexec, srun or lockstep launch say how many ranks there are"},
      {{"train.compile"}, always, "recorded only: kernels are compiled with the program, and kernels.* choose their ways"},
      {{"train.always_save_checkpoint"},
       always,
       "recorded only: each save is kept, whether the loss fell or not; checkpoint.interval says how often"},
      {{"data.out_dir"}, always, "recorded only: log.dir says where a run writes"},
  };
}

std::vector<IdleRule> evaluation_alone() {
  return {
      {{"train.log_interval",
        "train.eval_interval",
        "train.max_iters",
        "train.max_epochs",
        "train.warmup_iters",
        "train.dump_step",
        "train.max_skipped",
        "train.audit",
        "train.save_file",
        "train.global_batch",
        "train.tokens_per_step",
        "model.dropout",
        "data.order",
        "data.epoch_end",
        "optimizer.gas",
        "optimizer.learning_rate",
        "optimizer.weight_decay",
        "optimizer.beta1",
        "optimizer.beta2",
        "optimizer.momentum",
        "optimizer.grad_clip",
        "optimizer.decay_lr",
        "optimizer.lr_decay_iters",
        "optimizer.min_lr",
        "optimizer.eps",
        "optimizer.rounding",
        "optimizer.schedule",
        "optimizer.wsd_decay",
        "optimizer.decay",
        "optimizer.lr_scaling",
        "sample.prompt",
        "sample.tokens",
        "sample.temperature",
        "sample.top_k",
        "sample.top_p",
        "sample.every",
        "checkpoint.interval",
        "checkpoint.seconds",
        "checkpoint.async",
        "checkpoint.copies",
        "log.trace",
        "log.trace_steps"},
       eval_only,
       "with train.eval_only = true nothing is trained, written as a sample or saved"},
  };
}

std::vector<IdleRule> length_and_rate() {
  return {
      {{"train.max_iters"},
       [](const Facts& facts) { return facts.config.train.max_epochs.has_value(); },
       "train.max_epochs says how long the run is"},
      {{"train.warmup_iters", "optimizer.schedule", "optimizer.wsd_decay", "optimizer.lr_decay_iters", "optimizer.min_lr"},
       constant_rate,
       "with optimizer.decay_lr = false the learning rate is constant"},
      {{"optimizer.lr_decay_iters"}, ends_with_the_run, "optimizer.schedule ends with the run; wordplay and nanogpt end here"},
      {{"optimizer.wsd_decay"},
       [](const Facts& facts) { return facts.config.optimizer.schedule != train::LrSchedule::Kind::wsd; },
       "it is of optimizer.schedule=wsd alone"},
      {{"optimizer.lr_scaling"}, one_replica, "all ranks work on the same samples, so learning rates are multiplied by 1"},
      {{"optimizer.gas"},
       [](const Facts& facts) { return facts.config.train.tokens_per_step.has_value(); },
       "train.tokens_per_step says how many micro-batches a step has"},
      {{"dpo.beta", "dpo.label_smoothing"}, no_pairs, "it is of train.objective=dpo alone"},
      {{"train.global_batch"},
       [](const Facts& facts) { return !app::may_resume(facts.config); },
       "it is of a run that goes on (train.init_from=resume or auto)"},
  };
}

std::vector<IdleRule> model_and_data() {
  using enum arch::RopeScaling;
  return {
      {{"model.init"},
       [](const Facts& facts) { return app::starts_from_folder(facts.config); },
       "no weights are drawn: they come from train.init_from"},
      {{"model.rope_theta", "model.rope_scaling", "model.rope_factor", "model.rope_low_freq_factor",
        "model.rope_high_freq_factor", "model.rope_original_block_size", "model.rope_attention_factor", "model.rope_skip_every",
        "model.rope_short_factors", "model.rope_long_factors", "model.rope_local_theta"},
       no_rope,
       "it is of model.position=rope alone"},
      {{"model.rope_factor"},
       [](const Facts& facts) { return facts.config.model.rope_scaling == arch::RopeScaling::none; },
       "it is of model.rope_scaling"},
      {{"model.rope_original_block_size"},
       is_scaled_otherwise<llama3, yarn, longrope>,
       "it is of model.rope_scaling=llama3, yarn and longrope"},
      {{"model.rope_low_freq_factor", "model.rope_high_freq_factor"},
       is_scaled_otherwise<llama3, yarn>,
       "it is of model.rope_scaling=llama3 and yarn"},
      {{"model.rope_attention_factor"}, is_scaled_otherwise<yarn, longrope>, "it is of model.rope_scaling=yarn and longrope"},
      {{"model.rope_short_factors", "model.rope_long_factors"},
       is_scaled_otherwise<longrope>,
       "it is of model.rope_scaling=longrope alone"},
      {{"adapter.alpha", "adapter.targets", "adapter.whole", "adapter.rank_stabilised"},
       [](const Facts& facts) { return facts.config.adapter.rank == 0; },
       "without adapter.rank the model itself is trained"},
      {{"adapter.init_from"},
       [](const Facts& facts) { return facts.config.train.init_from.kind == app::InitFrom::Kind::resume; },
       "a run that goes on has its adapter"},
      {{"model.global_every", "model.rope_local_theta"},
       [](const Facts& facts) { return facts.config.model.window == 0; },
       "without model.window all layers see all"},
      {{"data.dataset", "data.root_path"},
       [](const Facts& facts) { return facts.config.data.dir.has_value(); },
       "data.dir says where the tokens lie"},
      {{"data.order"},
       [](const Facts& facts) { return facts.config.train.max_epochs && facts.config.data.order == data::Order::random; },
       "train.max_epochs counts epochs, so the order is partition"},
      {{"data.epoch_end"},
       [](const Facts& facts) { return app::order_of(facts.config) == data::Order::random; },
       "windows in random order make no epochs (data.order=partition does)"},
      {{"data.readers"},
       [](const Facts& facts) { return facts.config.data.io != app::DataIo::readers; },
       "it is of data.io=readers alone"},
      {{"data.io"},
       [](const Facts& facts) { return one_rank(facts) && facts.config.data.io == app::DataIo::readers; },
       "the only rank reads for itself"},
  };
}

std::vector<IdleRule> optimizer_and_samples() {
  return {
      {{"optimizer.beta1", "optimizer.beta2", "optimizer.eps", "kernels.adamw"},
       has_no_moments,
       "it is of optimizer.name=AdamW and muon alone"},
      {{"optimizer.momentum"},
       [](const Facts& facts) { return !has_momentum(facts); },
       "optimizer.name=AdamW has no momentum of this kind"},
      {{"optimizer.moments"}, keeps_no_slots, "without momentum sgd and lars keep nothing"},
      {{"optimizer.master_weights"},
       [](const Facts& facts) { return app::dtype_of(facts.config) == DType::f32; },
       "weights in fp32 are their own master copy"},
      {{"optimizer.rounding"},
       [](const Facts& facts) { return keeps_no_slots(facts) && facts.config.optimizer.master_weights; },
       "without momentum sgd and lars keep nothing in bf16"},
      {{"optimizer.decay"},
       [](const Facts& facts) { return facts.config.optimizer.weight_decay == 0; },
       "with optimizer.weight_decay = 0 no tensor decays"},
      {{"sample.prompt", "sample.temperature", "sample.top_k", "sample.top_p", "sample.every"},
       no_samples,
       "with sample.tokens = 0 no text is written"},
      {{"sample.top_k", "sample.top_p"},
       [](const Facts& facts) { return facts.config.sample.temperature == 0; },
       "with sample.temperature = 0 the likeliest token is taken"},
  };
}

std::vector<IdleRule> layout_rules() {
  return {
      {{"parallel.context"}, [](const Facts& facts) { return facts.config.parallel.cp == 1; }, "parallel.cp is 1"},
      {{"parallel.allow_tp_across_hosts"}, [](const Facts& facts) { return facts.config.parallel.tp == 1; }, "parallel.tp is 1"},
      {{"parallel.schedule"}, usual_passes, "parallel.pp is 1, and one rank's passes are those of 1f1b"},
      {{"parallel.virtual_stages", "parallel.split"},
       [](const Facts& facts) { return one_pipeline_rank(facts) && !app::schedule_file(facts.config.parallel.schedule); },
       "parallel.pp is 1"},
      {{"parallel.bucket_bytes"}, servers, "with train.backend = ps workers push each unit by itself"},
      {{"parallel.reduce"},
       [](const Facts& facts) { return facts.config.optimizer.gas == 1; },
       "with optimizer.gas = 1 a step has one micro-batch"},
      {{"parallel.reduce", "parallel.bucket_bytes", "parallel.overlap"},
       none_shares_parameters,
       "no ranks share parameters, so no gradients are added over ranks"},
      {{"parallel.broadcast_start"}, servers, "with train.backend = ps rank 0 always sends what the run starts with"},
      {{"parallel.broadcast_start", "parallel.ranks_per_host", "comm.timeout", "log.all_ranks"}, one_rank, "there is one rank"},
      {{"train.backend"},
       [](const Facts& facts) {
         const Backend& backend = find_backend(facts.config.train.backend);
         return backend.zero > 0 && !backend.deepspeed && none_shares_parameters(facts);
       },
       "no ranks share parameters, so each keeps all of its own"},
      {{"memory.zero"},
       [](const Facts& facts) { return app::zero_level(facts.config) > 0 && none_shares_parameters(facts); },
       "no ranks share parameters, so each keeps all of its own"},
      {{"memory.zero_group"},
       [](const Facts& facts) { return app::zero_level(facts.config) == 0 || none_shares_parameters(facts); },
       "it is of memory.zero from 1 on over several ranks"},
      {{"memory.reshard_after_forward"}, below_zero_3, "it is of memory.zero=3 over several ranks"},
      {{"memory.prefetch", "memory.max_tile_bytes"},
       weights_lie_whole,
       "weights lie whole in memory: it is of memory.zero=3 over several ranks, and of offloaded weights"},
      {{"memory.max_tile_bytes"}, [](const Facts& facts) { return !facts.config.memory.tiles.cut(); }, "memory.tiles is 1x1"},
      {{"memory.nvme_path"},
       [](const Facts& facts) { return !app::offloads_to_disk(facts.config); },
       "no memory.offload_* is nvme"},
  };
}

std::vector<IdleRule> kernels_and_logs() {
  return {
      {{"numerics.bf16"},
       [](const Facts& facts) { return app::dtype_of(facts.config) == DType::f32; },
       "with train.dtype = fp32 no product is of bf16"},
      {{"kernels.epilogues"},
       [](const Facts& facts) { return facts.config.numerics.products == ops::Products::library; },
       "what a library multiplies is finished in a pass of its own (numerics.products = library)"},
      {{"checkpoint.copies"},
       [](const Facts& facts) { return !facts.config.checkpoint.seconds; },
       "checkpoint.seconds says how often (lockstep launch: 30)"},
      {{"train.use_wandb"},
       [](const Facts& facts) { return facts.config.log.wandb == app::WandbMode::off; },
       "it is of log.wandb=offline alone"},
      {{"log.wandb"}, [](const Facts& facts) { return !facts.config.train.use_wandb; }, "train.use_wandb is false"},
      {{"train.wandb_project"},
       [](const Facts& facts) { return !app::keeps_wandb_history(facts.config); },
       "no history is kept for Weights & Biases (log.wandb=offline keeps one)"},
      {{"log.trace_steps"}, [](const Facts& facts) { return !facts.config.log.trace; }, "log.trace is false"},
  };
}

}  // namespace

std::span<const IdleRule> idle_rules() {
  static const std::vector<IdleRule> all = [] {
    std::vector<IdleRule> table;
    for (const auto& part : {recorded(), evaluation_alone(), length_and_rate(), model_and_data(), optimizer_and_samples(),
                             layout_rules(), kernels_and_logs()}) {
      table.insert(table.end(), part.begin(), part.end());
    }
    return table;
  }();
  return all;
}

std::string_view idle_reason(const Key& key, const IdleFacts& facts) {
  for (const IdleRule& rule : idle_rules()) {
    if (std::ranges::find(rule.keys, key.name) != rule.keys.end() && rule.holds(facts)) return rule.why;
  }
  return {};
}

}  // namespace lockstep::settings
