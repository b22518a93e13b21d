#include "layout/pipeline/schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "layout/pipeline/orders.h"
#include "layout/pipeline/split.h"
#include "layout/plan_fields.h"

namespace lockstep::layout {
namespace {

using Chunks = NamedSchedule::Chunks;

constexpr std::array<NamedSchedule, 7> table{
    {{"1f1b", "one forward, one backward", Chunks::one, 0, one_forward_one_backward},
     {"gpipe", "all forward, then all backward", Chunks::one, 0, gpipe},
     {"interleaved", "1f1b over several chunks a rank", Chunks::several, 0, interleaved},
     {"breadth-first", "all forward, then all backward, chunk by chunk", Chunks::several, 0, breadth_first},
     {"zb-h1", "1f1b, weight gradients where ranks would wait", Chunks::one, 0, zero_bubble_h1},
     {"zb-v", "chunks in a V, whatever is ready", Chunks::vee, 0, zero_bubble_v},
     {"dualpipe-v", "chunks in a V, from both sides in turn", Chunks::vee, 2, dualpipe_v}}};

/// One rank with the whole model, where nothing is left of a V.
bool alone(const PipelineShape& shape) { return shape.ranks == 1 && shape.chunks == 1; }

PipelineShape shape_of(const ParallelPlan& plan) {
  return {.ranks = plan.pp, .chunks = plan.chunks, .microbatches = plan.microbatches};
}

const NamedSchedule& schedule_of(const ParallelPlan& plan) {
  const NamedSchedule* schedule = find_schedule(plan.schedule);
  ensure(schedule != nullptr, "the plan's schedule is one of the table");
  return *schedule;
}

}  // namespace

std::span<const NamedSchedule> schedules() { return table; }

const NamedSchedule* find_schedule(std::string_view name) {
  const auto found = std::ranges::find(table, name, &NamedSchedule::name);
  return found == table.end() ? nullptr : &*found;
}

int usual_chunks(const NamedSchedule& schedule, int ranks) { return schedule.chunks == Chunks::one || ranks == 1 ? 1 : 2; }

std::vector<Problem> check(const NamedSchedule& schedule, const PipelineShape& shape, const PlanGrammar& say) {
  std::vector<Problem> problems;
  const auto complain = [&](const std::string& rule, int chunks) {
    problems.push_back({fmt::format("{}: schedule {} {}", say.has(PlanField::virtual_stages, shape.chunks), schedule.name, rule),
                        say.set(PlanField::virtual_stages, chunks) + " or null"});
  };
  if (alone(shape)) return problems;
  if (schedule.chunks == Chunks::one && shape.chunks != 1) complain("has one chunk a rank", 1);
  if (schedule.chunks == Chunks::several && shape.chunks < 2) complain("has at least two chunks a rank", 2);
  if (schedule.chunks == Chunks::vee && shape.chunks != 2) complain("has two chunks a rank, in a V", 2);
  if (shape.microbatches < schedule.least_microbatches * shape.ranks) {
    problems.push_back(
        {fmt::format("{}: schedule {} needs at least {} micro-batches for each of {} ranks",
                     say.has(PlanField::gas, shape.microbatches), schedule.name, schedule.least_microbatches, shape.ranks),
         fmt::format("{}, or {}", say.set(PlanField::gas, schedule.least_microbatches * shape.ranks),
                     say.set(PlanField::schedule, "zb-v"))});
  }
  return problems;
}

StageMap stage_map(const NamedSchedule& schedule, const PipelineShape& shape) {
  return schedule.chunks == Chunks::vee && !alone(shape) ? StageMap::vee(shape.ranks)
                                                         : StageMap::looped(shape.ranks, shape.chunks);
}

std::vector<std::vector<Action>> actions_of(const NamedSchedule& schedule, const PipelineShape& shape) {
  ensure(shape.ranks >= 1 && shape.chunks >= 1, "a pipeline has ranks, and they have chunks");
  ensure(shape.microbatches >= 1, "a step has at least one micro-batch");
  const std::vector<Problem> problems = check(schedule, shape);
  ensure(problems.empty(), problems.empty() ? std::string() : problems.front().message);
  const bool unfolded = schedule.chunks == Chunks::vee && alone(shape);
  return with_messages(unfolded ? one_forward_one_backward(shape) : schedule.passes(shape), stage_map(schedule, shape));
}

StageMap stage_map(const ParallelPlan& plan) {
  return plan.table ? plan.table->map : stage_map(schedule_of(plan), shape_of(plan));
}

std::vector<std::vector<Action>> actions_of(const ParallelPlan& plan) {
  if (!plan.table) return actions_of(schedule_of(plan), shape_of(plan));
  ensure(plan.table->microbatches == plan.microbatches, "a table's passes go through the micro-batches of the plan");
  return with_messages(plan.table->passes, plan.table->map);
}

bool makes_weights_later(const ParallelPlan& plan) {
  const std::vector<std::vector<Action>> lists = actions_of(plan);
  return std::ranges::any_of(lists, [](const std::vector<Action>& list) {
    return std::ranges::find(list, Action::Kind::input_backward, &Action::kind) != list.end();
  });
}

std::vector<Chunk> chunks_of(const StageMap& map, int rank, const std::vector<std::int64_t>& split) {
  ensure(std::ssize(split) == map.stages(), "every stage has its share of the blocks");
  std::vector<Chunk> chunks;
  for (const int stage : map.stages_of(rank)) {
    const auto end = split.begin() + stage;
    chunks.push_back({.blocks = {std::accumulate(split.begin(), end, std::int64_t{0}), *end},
                      .embedding = stage == 0,
                      .head = stage == map.stages() - 1});
  }
  return chunks;
}

std::vector<Chunk> chunks_of(const StageMap& map, int rank, std::int64_t layers) {
  return chunks_of(map, rank, even_split(map.stages(), layers));
}

std::vector<Chunk> chunks_of(const ParallelPlan& plan, int rank, std::int64_t layers) {
  return plan.split.empty() ? chunks_of(stage_map(plan), rank, layers) : chunks_of(stage_map(plan), rank, plan.split);
}

}  // namespace lockstep::layout
