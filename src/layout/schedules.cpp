#include "layout/schedules.h"

#include <algorithm>
#include <array>

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;

/// A rank's list while it is written: passes with the messages that they need.
class List {
 public:
  explicit List(const PipelinePlace& place) : first_(place.stage == 0), last_(place.stage == place.stages - 1) {
    ensure(place.microbatches >= 1, "a step has at least one micro-batch");
    ensure(place.stage >= 0 && place.stage < place.stages, "the stage is one of the pipeline's");
  }
  void forward(int microbatch) {
    if (!first_) add(Kind::receive_input, microbatch);
    add(Kind::forward, microbatch);
    if (!last_) add(Kind::send_output, microbatch);
  }
  void backward(int microbatch) {
    if (!last_) add(Kind::receive_gradient, microbatch);
    add(Kind::backward, microbatch);
    if (!first_) add(Kind::send_gradient, microbatch);
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  void add(Kind kind, int microbatch) { actions_.push_back({kind, Microbatch{microbatch}}); }

  bool first_, last_;
  std::vector<Action> actions_;
};

std::vector<Action> gpipe(const PipelinePlace& place) {
  List list(place);
  for (int m = 0; m < place.microbatches; ++m) list.forward(m);
  for (int m = 0; m < place.microbatches; ++m) list.backward(m);
  return list.take();
}

std::vector<Action> one_forward_one_backward(const PipelinePlace& place) {
  List list(place);
  const int ahead = std::min(place.stages - 1 - place.stage, place.microbatches);
  for (int m = 0; m < place.microbatches + ahead; ++m) {
    if (m < place.microbatches) list.forward(m);
    if (m >= ahead) list.backward(m - ahead);
  }
  return list.take();
}

constexpr std::array<NamedSchedule, 2> table{{{"1f1b", one_forward_one_backward}, {"gpipe", gpipe}}};

}  // namespace

std::vector<Chunk> chunks_of(const ParallelPlan& plan, int pipeline_rank, std::int64_t layers) {
  const int stages = plan.pp * plan.chunks;
  std::vector<Chunk> chunks;
  for (int stage = pipeline_rank; stage < stages; stage += plan.pp) {
    chunks.push_back({.blocks = part_of(layers, stage, stages), .embedding = stage == 0, .head = stage == stages - 1});
  }
  return chunks;
}

std::span<const NamedSchedule> schedules() { return table; }

const NamedSchedule* find_schedule(std::string_view name) {
  const auto found = std::ranges::find(table, name, &NamedSchedule::name);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace lockstep::layout
