#include "planner/trace.h"

#include <fmt/format.h>

#include <array>

#include "layout/pipeline/lives.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::planner {
namespace {

constexpr double kMicro = 1e6;

std::vector<MemoryPoint> memory_curve(const std::vector<layout::TimedPass>& passes, const Ledger& ledger, int chunks) {
  std::vector<layout::Action> actions;
  for (const layout::TimedPass& pass : passes) actions.push_back(pass.action);
  const auto activations = static_cast<double>(ledger.total(MemoryKind::activations));
  const double each = activations / (peak_activations(actions, chunks) * chunks);
  double bytes = static_cast<double>(ledger.total()) - activations;
  std::vector<MemoryPoint> points{{0, bytes}};
  for (const layout::TimedPass& pass : passes) {
    if (pass.action.kind == layout::Action::Kind::forward) points.push_back({pass.start, bytes += each});
    if (belongs(pass.action.kind, layout::Stream::weight_backward)) points.push_back({pass.end, bytes -= each});
  }
  return points;
}

Json row_name(int rank) {
  return Json::Object{{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", rank},
                      {"args", Json(Json::Object{{"name", fmt::format("pipeline rank {}", rank)}})}};
}

Json event(std::string name, std::string_view kind, int rank, double start, double end) {
  return Json::Object{
      {"name", std::move(name)},      {"cat", kind}, {"ph", "X"}, {"pid", 0}, {"tid", rank}, {"ts", start * kMicro},
      {"dur", (end - start) * kMicro}};
}

Json pass_event(const layout::TimedPass& pass, int rank) {
  static constexpr std::array<std::string_view, 4> kinds{"forward", "backward", "input backward", "weight backward"};
  const layout::Action& action = pass.action;
  return event(
      fmt::format("{} {} of chunk {}", kinds[static_cast<std::size_t>(action.kind)], action.microbatch.value, action.chunk),
      kinds[static_cast<std::size_t>(action.kind)], rank, pass.start, pass.end);
}

}  // namespace

SimulatedStep simulate_step(const Work& work, const Candidate& candidate) {
  const StepTime time = step_time(work, candidate);
  SimulatedStep step{.timeline = simulated(work, candidate), .end = {time.replicas, time.optimizer}, .memory = {}};
  for (int rank = 0; rank < candidate.plan.pp; ++rank) {
    step.memory.push_back(memory_curve(step.timeline.ranks[static_cast<std::size_t>(rank)],
                                       declared_memory(work, candidate, {.pp = rank}), candidate.plan.chunks));
  }
  return step;
}

Json chrome_trace(const SimulatedStep& step) {
  Json::Array events;
  const double passed = step.timeline.makespan, summed = passed + step.end.replicas;
  for (int rank = 0; rank < std::ssize(step.timeline.ranks); ++rank) {
    const auto own = static_cast<std::size_t>(rank);
    events.push_back(row_name(rank));
    for (const layout::TimedPass& pass : step.timeline.ranks[own]) events.push_back(pass_event(pass, rank));
    events.push_back(event("sums of gradients and new weights", "replicas", rank, passed, summed));
    events.push_back(event("update", "optimizer", rank, summed, step.seconds()));
    for (const MemoryPoint& point : step.memory[own]) {
      events.emplace_back(Json::Object{{"name", fmt::format("memory of pipeline rank {}", rank)},
                                       {"ph", "C"},
                                       {"pid", 0},
                                       {"ts", point.seconds * kMicro},
                                       {"args", Json(Json::Object{{"bytes", point.bytes}})}});
    }
  }
  return Json::Object{{"traceEvents", Json(std::move(events))}, {"displayTimeUnit", "ms"}};
}

}  // namespace lockstep::planner
