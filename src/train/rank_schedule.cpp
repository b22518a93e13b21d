#include "train/rank_schedule.h"

#include "layout/schedules.h"

namespace lockstep::train {

RankSchedule rank_schedule(const EngineConfig& config) {
  const layout::NamedSchedule* schedule = layout::find_schedule(config.plan.schedule);
  ensure(schedule != nullptr, "the plan's schedule is one of the table");
  return {.chunks = {{.blocks = {0, config.model.layers}, .embedding = true, .head = true}},
          .actions = schedule->actions({.microbatches = config.plan.microbatches})};
}

model::ModelShape model_shape(const EngineConfig& config, const RankSchedule& schedule, parallel::ContextAttention& attention) {
  const std::int64_t rows = config.samples * config.positions;
  return {.rows = {.inside = rows, .outside = rows},
          .chunks = schedule.chunks,
          .lives = layout::lives_of(schedule.actions, schedule.chunks, config.plan.microbatches),
          .attention = &attention};
}

parallel::GradientWork gradient_work(const EngineConfig& config) {
  const RankSchedule schedule = rank_schedule(config);
  return {.microbatches = config.plan.microbatches,
          .reduce = config.plan.reduce,
          .tokens = config.samples * config.positions * config.plan.microbatches,
          .open_microbatches = layout::open_microbatches(schedule.actions, schedule.chunks, config.plan.microbatches)};
}

}  // namespace lockstep::train
