#include "app/train/trainer_options.h"

#include "base/json.h"

namespace lockstep::app {
namespace {

train::LrSchedule schedule_of(const RunConfig& config, std::int64_t max_iters, std::int64_t ranks) {
  train::LrSchedule schedule;
  schedule.kind = config.optimizer.schedule;
  schedule.decay = config.optimizer.decay_lr;
  schedule.learning_rate = config.optimizer.learning_rate * lr_factor(config, ranks);
  schedule.min_lr = config.optimizer.min_lr * lr_factor(config, ranks);
  schedule.warmup = config.train.warmup_iters;
  schedule.decay_iters = config.optimizer.lr_decay_iters;
  schedule.max_iters = max_iters;
  schedule.wsd_decay = config.optimizer.wsd_decay;
  return schedule;
}

}  // namespace

std::optional<std::int64_t> kept_scaling(const checkpoint::Manifest& manifest, std::int64_t batch) {
  const Json* kept = manifest.run.is_object() ? manifest.run.find(scaling_key) : nullptr;
  return kept != nullptr && manifest.global_batch == batch ? std::optional(kept->integer()) : std::nullopt;
}

train::TrainerOptions trainer_options_of(const RunConfig& config, std::int64_t max_iters, std::int64_t scaling) {
  train::TrainerOptions options;
  options.max_iters = max_iters;
  options.log_interval = config.train.log_interval;
  options.eval_interval = config.train.eval_interval;
  options.checkpoint_interval = checkpoint_interval(config);
  options.checkpoint_seconds = config.checkpoint.seconds;
  options.saves_beside = config.checkpoint.async.value_or(false);
  options.eval_only = config.train.eval_only;
  options.schedule = schedule_of(config, max_iters, scaling);
  options.sample = {.tokens = config.sample.tokens,
                    .temperature = config.sample.temperature,
                    .top_k = config.sample.top_k.value_or(0),
                    .top_p = config.sample.top_p,
                    .seed = seed_of(config)};
  options.prompt = config.sample.prompt;
  options.style = config.log.style;
  options.sample_epochs = config.sample.every.epochs;
  options.max_skipped = config.train.max_skipped;
  if (config.train.peak_tflops) options.peak_flops = *config.train.peak_tflops * 1e12;
  options.switches = {config.train.kill_file, config.train.save_file, config.train.max_minutes};
  return options;
}

}  // namespace lockstep::app
