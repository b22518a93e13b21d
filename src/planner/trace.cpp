#include "planner/trace.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "layout/pipeline/lives.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::planner {
namespace {

std::vector<MemoryPoint> memory_curve(const std::vector<layout::TimedPass>& passes, double device, double activations,
                                      int chunks) {
  std::vector<layout::Action> actions;
  for (const layout::TimedPass& pass : passes) actions.push_back(pass.action);
  const double each = activations / (peak_activations(actions, chunks) * chunks);
  double bytes = device - activations;
  std::vector<MemoryPoint> points{{0, bytes}};
  for (const layout::TimedPass& pass : passes) {
    if (pass.action.kind == layout::Action::Kind::forward) points.push_back({pass.start, bytes += each});
    if (belongs(pass.action.kind, layout::Stream::weight_backward)) points.push_back({pass.end, bytes -= each});
  }
  return points;
}

std::string name_of(const layout::Action& action, std::string_view kind) {
  return fmt::format("{} {} of chunk {}", kind, action.microbatch.value, action.chunk);
}

}  // namespace

SimulatedStep simulate_step(const Work& work, const Candidate& candidate) {
  const StepTime time = step_time(work, candidate);
  SimulatedStep step{
      .timeline = simulated(work, candidate), .end = {time.replicas, time.optimizer}, .memory = {}, .elsewhere = {}};
  for (int rank = 0; rank < candidate.plan.pp; ++rank) {
    const std::vector<layout::TimedPass>& passes = step.timeline.ranks[static_cast<std::size_t>(rank)];
    if (!is_own(work.system)) {
      const auto device = static_cast<double>(device_memory(work, candidate).bytes);
      step.memory.push_back(memory_curve(passes, device, block_bytes(work, candidate), candidate.plan.chunks));
      step.elsewhere.push_back({0, 0});
      continue;
    }
    const DeclaredMemory memory = declared_memory(work, candidate, {.pp = rank});
    step.memory.push_back(memory_curve(passes, static_cast<double>(memory.device()),
                                       static_cast<double>(memory.ledger.total(MemoryKind::activations)), candidate.plan.chunks));
    step.elsewhere.push_back({memory.host, memory.disk});
  }
  return step;
}

ChromeTrace chrome_trace(const SimulatedStep& step) {
  static constexpr std::array<std::string_view, 4> kinds{"forward", "backward", "input backward", "weight backward"};
  ChromeTrace trace;
  const double passed = step.timeline.makespan, summed = passed + step.end.replicas;
  for (int rank = 0; rank < std::ssize(step.timeline.ranks); ++rank) {
    const auto own = static_cast<std::size_t>(rank);
    const ChromeTrace::Row row{0, rank};
    trace.name_row(row, fmt::format("pipeline rank {}", rank));
    for (const layout::TimedPass& pass : step.timeline.ranks[own]) {
      const std::string_view kind = kinds[static_cast<std::size_t>(pass.action.kind)];
      trace.span(row, kind, name_of(pass.action, kind), pass.start, pass.end);
    }
    trace.span(row, "replicas", "sums of gradients and new weights", passed, summed);
    trace.span(row, "optimizer", "update", summed, step.seconds());
    for (const MemoryPoint& point : step.memory[own])
      trace.counter(0, fmt::format("memory of pipeline rank {}", rank), "bytes", point.seconds, point.bytes);
    const auto& [host, disk] = step.elsewhere[own];
    for (const auto& [bytes, place] : {std::pair(host, "host memory"), std::pair(disk, "disks")}) {
      if (bytes > 0) trace.counter(0, fmt::format("{} of pipeline rank {}", place, rank), "bytes", 0, static_cast<double>(bytes));
    }
  }
  return trace;
}

}  // namespace lockstep::planner
