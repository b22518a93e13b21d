#include "train/serving.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/cpu/team.h"

namespace lockstep::train {

using parallel::Answer;
using parallel::Errand;
using parallel::Server;

namespace {

layout::KeyRanges ranges_of(const EngineConfig& config, comm::Communicator& world, int servers) {
  return key_ranges(config, arch::units_of(arch::unit_table(config.model, config.decay)), world.size() - servers, servers);
}

Server::Keeps kept_by(const EngineConfig& config, ServerMode mode) {
  const bool averages = mode == ServerMode::weights;
  return {.rows = config.model.tied && mode == ServerMode::gradients,
          .moments = !averages,
          .type = config.weights.owned(),
          .pushed = averages ? config.weights.owned() : DType::f32};
}

}  // namespace

Serving::Serving(const EngineConfig& config, const ServingOptions& options, Runtime& runtime, ops::Ops& ops,
                 comm::Communicator& world, comm::Communicator& servers)
    : config_(config),
      options_(options),
      runtime_(runtime),
      ops_(ops),
      world_(world),
      servers_(servers),
      parameter_arena_("parameters", MemoryKind::parameters),
      optimizer_arena_("optimizer", MemoryKind::optimizer),
      gradient_arena_("pushed", MemoryKind::gradients),
      server_(world, ranges_of(config, world, options.servers), kept_by(config, options.mode), cpu::team_of(runtime)),
      squares_(server_.parts().size() * static_cast<std::size_t>(server_.ranges().workers())),
      everybody_(static_cast<std::size_t>(server_.ranges().workers())),
      progress_(everybody_.size()) {
  std::iota(everybody_.begin(), everybody_.end(), 0);
  server_.declare(parameter_arena_, optimizer_arena_, gradient_arena_);
  optimizer_arena_.declare(scalars_.values, "step_scalars", Shape{ops::StepScalars::count}, DType::f32);
}

Ledger Serving::ledger() const {
  Ledger ledger;
  for (const Arena* arena : {&parameter_arena_, &gradient_arena_, &optimizer_arena_}) arena->enter(ledger);
  ledger.add(MemoryKind::workspace, "kernels", ops_.workspace_bytes(), {});
  return ledger;
}

void Serving::commit() {
  Ledger committed;
  parameter_arena_.commit(world_.window(runtime_.memory()), committed);
  optimizer_arena_.commit(runtime_.memory(), committed);
  gradient_arena_.commit(runtime_.memory(), committed);
}

void Serving::run() {
  for (std::size_t left = workers(); left > 0;) {
    const Server::Visit visit = server_.next();
    switch (visit.errand) {
      case Errand::push:
        pushed(visit);
        break;
      case Errand::pull:
        progress_[static_cast<std::size_t>(visit.worker)].pulled = updates_;
        server_.give_weights(visit.worker);
        break;
      case Errand::load:
        load(visit);
        break;
      case Errand::moments:
        server_.give_moments(visit.worker);
        break;
      case Errand::leave:
        --left;
        break;
    }
  }
}

void Serving::load(const Server::Visit& visit) {
  server_.take_state(visit.worker);
  for (Progress& progress : progress_) progress = {.steps = visit.step, .pulled = 0, .loss = {}, .waits = false};
  updates_ = 0;
  first_update_ = visit.step * static_cast<std::int64_t>(workers());
}

void Serving::pushed(const Server::Visit& visit) {
  said_.alarm = options_.alarm();
  if (options_.mode == ServerMode::async) return update_apart(visit);
  if (++arrived_ < workers()) return;
  arrived_ = 0;
  options_.mode == ServerMode::gradients ? update_together(visit) : average();
  server_.answer(everybody_, said_);
}

void Serving::average() {
  for (Server::Part& part : server_.parts()) {
    if (part.range.count > 0) server_.combine(comm::Reduction::mean, part.pushed, part.weights);
  }
}

// The sum of all workers' gradients takes the place of the first one.
void Serving::update_together(const Server::Visit& visit) {
  for (Server::Part& part : server_.parts()) {
    if (part.range.count > 0) server_.combine(comm::Reduction::sum, part.pushed, part.pushed.front());
  }
  const layout::KeyRanges& ranges = server_.ranges();
  if (const layout::Range rows = ranges.rows(server_.number()); config_.model.tied && rows.count > 0) {
    const Tensor& sum = server_.rows().front();
    server_.combine(comm::Reduction::sum, server_.rows(), sum);
    const Server::Part& tied = server_.parts()[static_cast<std::size_t>(ranges.tied().value)];
    ops_.elementwise().add(tied.pushed.front().flat(0, rows.count), sum);
  }
  said_.norm = norm();
  update(config_.adamw, 0,
         {.learning_rate = visit.figures.learning_rate,
          .updates = visit.step + 1,
          .clip_factor = clip_factor(said_.norm, config_.grad_clip),
          .finite = std::isfinite(said_.norm) && visit.figures.finite != 0});
}

// As parallel::GlobalNorm does it over as many ranks as there are workers.
double Serving::norm() {
  const layout::KeyRanges& ranges = server_.ranges();
  std::ranges::fill(squares_, 0.0);
  for (std::size_t u = 0; u < server_.parts().size(); ++u) {
    const Server::Part& part = server_.parts()[u];
    const layout::KeyRanges::Cells cells = ranges.cells(part.unit, server_.number());
    for (int c = cells.first; c < cells.last; ++c) {
      const layout::Range range = ranges.cell(part.unit, c);
      const Tensor gradient = part.pushed.front().flat(range.first - part.range.first, range.count);
      squares_[u * workers() + static_cast<std::size_t>(c)] = ops_.reduce().sum_of_squares(gradient);
    }
  }
  servers_.all_reduce(view(std::span(squares_), Shape{std::ssize(squares_)}), comm::Reduction::sum).wait();
  return std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
}

void Serving::update(const ops::AdamW& rule, std::size_t pushed_by, const UpdateNumbers& numbers) {
  set_update(scalars_, rule, numbers);
  for (const Server::Part& part : server_.parts()) {
    if (part.range.count == 0) continue;
    update_range(ops_.update(), rule,
                 {.weights = part.weights,
                  .published = part.weights,
                  .gradient = part.pushed[pushed_by],
                  .exp_avg = part.exp_avg,
                  .exp_avg_sq = part.exp_avg_sq,
                  .decayed = server_.ranges().unit(part.unit).decayed - part.range.first},
                 scalars_);
  }
}

// The gradient of a batch as many times smaller as there are workers: the square-root rule of adaptive methods for the learning
// rate (Malladi et al. 2022), and as much decay in a round of all workers as in one step of them together.
void Serving::update_apart(const Server::Visit& visit) {
  Progress& worker = progress_[static_cast<std::size_t>(visit.worker)];
  ++updates_;
  const double root = std::sqrt(static_cast<double>(workers()));
  ops::AdamW rule = config_.adamw;
  rule.weight_decay = static_cast<float>(rule.weight_decay / root);
  update(rule, static_cast<std::size_t>(visit.worker),
         {.learning_rate = visit.figures.learning_rate / root,
          .updates = first_update_ + updates_,
          .clip_factor = visit.figures.clip_factor,
          .finite = visit.figures.finite != 0});
  const auto stale = static_cast<double>(updates_ - 1 - worker.pulled);
  said_.updates += 1;
  said_.staleness_sum += stale;
  said_.staleness_max = std::max(said_.staleness_max, stale);
  worker.steps = visit.step + 1;
  worker.loss = visit.figures.loss;
  worker.waits = true;
  // Nobody has gone further than the step behind the foremost one's last: there all can meet.
  const auto foremost = std::ranges::max(progress_, {}, &Progress::steps).steps;
  const auto last = std::ranges::min(progress_, {}, &Progress::steps).steps;
  if (static_cast<double>(last) > said_.meet_at) said_.meet_at = 0;
  const bool wanted = visit.figures.wants_halt != 0 || said_.alarm != 0;
  if (wanted && said_.meet_at == 0) said_.meet_at = static_cast<double>(foremost + 1);
  release();
}

// Answers every worker that is not too far ahead of the slowest.
void Serving::release() {
  const auto slowest = std::ranges::min(progress_, {}, &Progress::steps).steps;
  double sum = 0, known = 0;
  for (const Progress& worker : progress_) {
    sum += worker.loss.value_or(0);
    known += worker.loss ? 1 : 0;
  }
  said_.loss = sum / known;
  for (std::size_t w = 0; w < workers(); ++w) {
    Progress& worker = progress_[w];
    if (!worker.waits || (options_.staleness && worker.steps - slowest > *options_.staleness)) continue;
    worker.waits = false;
    worker.pulled = updates_;
    const int number = static_cast<int>(w);
    server_.answer({&number, 1}, said_);
  }
}

}  // namespace lockstep::train
