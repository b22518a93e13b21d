#include "train/pipeline_runner.h"

#include <algorithm>
#include <array>

#include "base/timer.h"

namespace lockstep::train {

using Kind = layout::Action::Kind;

namespace {

model::JudgedSamples judged_by(model::SampleJudge* judge, int microbatch) {
  return judge != nullptr ? judge->of(microbatch) : model::JudgedSamples{};
}

std::array<std::int64_t, 3> numbers_of(const layout::Action& action) { return {action.microbatch.value, action.chunk}; }

}  // namespace

PipelineRunner::PipelineRunner(const std::vector<layout::Action>& actions, const model::ModelMemory& memory,
                               std::span<const std::unique_ptr<model::Stage>> stages, PipelineLinks links,
                               const ContextPlace& place)
    : actions_(actions),
      memory_(memory),
      stages_(stages),
      links_(std::move(links)),
      place_(place),
      inputs_(stages.size()),
      outputs_(stages.size()),
      gradients_(stages.size()),
      seconds_{.chunks = std::vector<ChunkSeconds>(stages.size())} {
  ensure(memory.shape().chunks.size() == stages.size(), "every chunk has its stage");
  for (std::size_t c = 0; c < stages.size(); ++c) {
    const layout::ChunkLives& lives = memory.shape().lives[c];
    inputs_.resize(c, static_cast<std::size_t>(lives.inputs));
    outputs_.resize(c, static_cast<std::size_t>(lives.outputs));
    gradients_.resize(c, static_cast<std::size_t>(lives.gradients));
  }
}

void PipelineRunner::Messages::finish() {
  for (std::vector<comm::Request>& chunk : pending_) {
    for (comm::Request& request : chunk) request.wait();
  }
}

PassTimes PipelineRunner::run(std::span<const data::Batch> batches, std::int64_t step, const StepObjective& objective) {
  PassTimes result;
  seconds_.all = 0;
  std::ranges::fill(seconds_.chunks, ChunkSeconds{});
  const ScopedTime timed_list(seconds_.all);
  for (const layout::Action& action : actions_) {
    if (action.microbatch.value >= std::ssize(batches)) continue;
    const data::Batch& batch = batches[static_cast<std::size_t>(action.microbatch.value)];
    model::Pass pass = pass_of(batch, action.microbatch);
    pass.first_sample = static_cast<std::int64_t>(batch.first_sample);
    pass.step = step;
    pass.training = true;
    switch (action.kind) {
      case Kind::forward:
        forward(action, pass, batch, objective, result);
        break;
      case Kind::backward:
      case Kind::input_backward:
      case Kind::weight_backward: {
        const ScopedTime timed(result.backward_seconds);
        backward(action, pass, batch);
        break;
      }
      case Kind::receive_input:
      case Kind::send_output:
      case Kind::receive_gradient:
      case Kind::send_gradient:
        exchange(action, stage(action.chunk).stream_rows(pass));
        break;
    }
  }
  finish_messages();
  return result;
}

model::Pass PipelineRunner::pass_of(const data::Batch& batch, Microbatch microbatch) const {
  const auto ranks = static_cast<std::size_t>(place_.ranks), rank = static_cast<std::size_t>(place_.rank);
  model::Pass pass{.samples = batch.samples, .starts = batch.starts, .window_starts = batch.window_starts};
  if (!place_.parts.empty()) pass.parts = place_.parts.subspan(static_cast<std::size_t>(microbatch.value) * ranks, ranks);
  pass.positions = pass.parts.empty() ? parallel::split_positions(batch.positions, place_.rank, place_.ranks) : pass.parts[rank];
  return pass;
}

Tensor PipelineRunner::input(const layout::Action& action, const model::Pass& pass, const data::Batch& batch) {
  if (stage(action.chunk).chunk().embedding) return batch.tokens;
  const Place place = memory_.input(action.chunk, action.microbatch);
  inputs_.at(place).wait();
  return place.tensor.slice_rows(0, stage(action.chunk).stream_rows(pass));
}

Tensor PipelineRunner::output(int chunk, Microbatch microbatch, std::int64_t rows) {
  const Place place = memory_.output(chunk, microbatch);
  if (place.chunk == chunk) outputs_.at(place).wait();
  return place.tensor.slice_rows(0, rows);
}

Tensor PipelineRunner::gradient(int chunk, Microbatch microbatch, std::int64_t rows) {
  const Place place = memory_.gradient(chunk, microbatch);
  gradients_.at(place).wait();
  return place.tensor.slice_rows(0, rows);
}

void PipelineRunner::forward(const layout::Action& action, const model::Pass& pass, const data::Batch& batch,
                             const StepObjective& objective, PassTimes& times) {
  model::Stage& stage = this->stage(action.chunk);
  const Tensor x = output(action.chunk, action.microbatch, stage.stream_rows(pass));
  double& own = seconds_of(action.chunk).forward;
  {
    const ScopedTime timed(times.forward_seconds);
    const Tensor in = input(action, pass, batch);
    const ScopedTime timed_pass(own);
    const ScopedSpan span(spans_, SpanKind::pass, "forward", numbers_of(action));
    stage.forward(pass, action.microbatch, in, x);
  }
  if (!stage.chunk().head) return;
  const ScopedTime timed(times.backward_seconds);
  const Tensor d = gradient(action.chunk, action.microbatch, stage.stream_rows(pass));
  const ScopedTime timed_loss(own);
  const ScopedSpan span(spans_, SpanKind::pass, "head and loss", numbers_of(action));
  const Tensor losses =
      objective.losses.flat(std::int64_t{action.microbatch.value} * objective.losses_each, objective.losses_each);
  stage.loss(pass, action.microbatch, x,
             {batch.targets, losses, objective.scale, judged_by(objective.judge, action.microbatch.value)}, d);
}

void PipelineRunner::backward(const layout::Action& action, const model::Pass& pass, const data::Batch& batch) {
  model::Stage& stage = this->stage(action.chunk);
  ChunkSeconds& own = seconds_of(action.chunk);
  if (action.kind == Kind::weight_backward) {
    const ScopedTime timed(own.weight_backward);
    const ScopedSpan span(spans_, SpanKind::pass, "weight backward", numbers_of(action));
    return stage.backward_weight(action.microbatch);
  }
  const Tensor d = gradient(action.chunk, action.microbatch, stage.stream_rows(pass)), in = input(action, pass, batch);
  const bool whole = action.kind == Kind::backward;
  const ScopedTime timed(whole ? own.backward : own.input_backward);
  const ScopedSpan span(spans_, SpanKind::pass, whole ? "backward" : "input backward", numbers_of(action));
  if (whole) return stage.backward(pass, action.microbatch, in, d);
  stage.backward_input(pass, action.microbatch, in, d);
}

void PipelineRunner::exchange(const layout::Action& action, std::int64_t rows) {
  const auto [before, behind] = links_.chunks[static_cast<std::size_t>(action.chunk)];
  // An earlier message may still use the slot: a new one waits for it.
  const auto receive = [&](Messages& messages, const Place& place, int from) {
    messages.at(place).wait();
    messages.at(place) = links_.group->moving(comm::Purpose::activations).receive(place.tensor.slice_rows(0, rows), from);
  };
  const auto send = [&](Messages& messages, const Place& place, int to) {
    messages.at(place).wait();
    messages.at(place) = links_.group->moving(comm::Purpose::activations).send(place.tensor.slice_rows(0, rows), to);
  };
  if (action.kind == Kind::receive_input) return receive(inputs_, memory_.input(action.chunk, action.microbatch), before);
  if (action.kind == Kind::send_output) return send(outputs_, memory_.output(action.chunk, action.microbatch), behind);
  const Place gradient = memory_.gradient(action.chunk, action.microbatch);
  action.kind == Kind::receive_gradient ? receive(gradients_, gradient, behind) : send(gradients_, gradient, before);
}

bool PipelineRunner::has(Kind kind, int chunk) const {
  return std::ranges::any_of(actions_,
                             [&](const layout::Action& action) { return action.kind == kind && action.chunk == chunk; });
}

void PipelineRunner::evaluate(const data::Batch& batch, const Tensor& loss, model::SampleJudge* judge) {
  constexpr Microbatch only{0};
  const model::Pass pass = pass_of(batch, only);
  for (int c = 0; c < std::ssize(stages_); ++c) {
    model::Stage& stage = this->stage(c);
    const std::int64_t rows = stage.stream_rows(pass);
    if (has(Kind::receive_input, c)) exchange({Kind::receive_input, only, c}, rows);
    const Tensor x = output(c, only, rows);
    stage.forward(pass, only, input({Kind::forward, only, c}, pass, batch), x);
    if (stage.chunk().head) stage.evaluate(pass, x, {batch.targets, loss, {}, judged_by(judge, only.value)});
    if (has(Kind::send_output, c)) exchange({Kind::send_output, only, c}, rows);
  }
  finish_messages();
}

void PipelineRunner::finish_messages() {
  for (Messages* messages : {&inputs_, &outputs_, &gradients_}) messages->finish();
}

}  // namespace lockstep::train
