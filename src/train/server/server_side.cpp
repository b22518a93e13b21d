#include "train/server/server_side.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/team.h"

namespace lockstep::train {

using parallel::Answer;
using parallel::Errand;
using parallel::Server;

namespace {

// An asynchronous worker's gradient is that of a batch `workers` times smaller. Adaptive methods then divide the learning rate by
// the square root of `workers` (Malladi et al. 2022). Weight decay is divided by it, too: so a round of all workers decays as
// much as one step of them together.
OptimizerSettings settings_of(const EngineConfig& config, int workers) {
  OptimizerSettings settings = config.optimizer;
  if (config.servers->mode == ServerMode::async) {
    settings.weight_decay = static_cast<float>(settings.weight_decay / std::sqrt(static_cast<double>(workers)));
  }
  return settings;
}

}  // namespace

ServerSide::ServerSide(const EngineConfig& config, const ServerOptions& options, Runtime& runtime, ops::Ops& ops,
                       comm::Communicator& world, comm::Communicator& servers)
    : config_(config),
      options_(options),
      runtime_(runtime),
      ops_(ops),
      world_(world),
      servers_(servers),
      memory_(config, world.size() - servers.size(), servers.rank(), runtime.device()),
      mode_(config.servers->mode),
      optimizer_(make_optimizer(settings_of(config, world.size() - servers.size()))),
      server_(world, memory_.server, runtime.team()),
      all_workers_(static_cast<std::size_t>(memory_.server.ranges.workers())),
      progress_(all_workers_.size()) {
  optimizer_->address(memory_.server.ranges.units(), config.seed);
  std::iota(all_workers_.begin(), all_workers_.end(), 0);
}

void ServerSide::commit() { memory_.commit(runtime_, world_.window(runtime_.memory())); }

void ServerSide::run() {
  for (std::size_t left = workers(); left > 0;) {
    const Server::Visit visit = server_.next();
    switch (visit.errand) {
      case Errand::push:
        pushed(visit);
        break;
      case Errand::pull:
        progress_[static_cast<std::size_t>(visit.worker)].pulled = updates();
        server_.give_weights(visit.worker);
        break;
      case Errand::load:
        load(visit);
        break;
      case Errand::slots:
        server_.give_slots(visit.worker);
        break;
      case Errand::leave:
        --left;
        break;
    }
  }
}

void ServerSide::load(const Server::Visit& visit) {
  server_.take_state(visit.worker);
  server_.state(visit.worker).set_updates(visit.updates);
  for (Progress& progress : progress_) progress = {.steps = visit.step, .pulled = visit.updates};
}

void ServerSide::pushed(const Server::Visit& visit) {
  said_.stop_cause = options_.stop_cause();
  if (mode_ == ServerMode::async) return update_apart(visit);
  changed_ = changed_ || visit.figures.finite != 0;
  if (++arrived_ < workers()) return;
  if (mode_ == ServerMode::gradients) {
    update_together(visit);
  } else {
    average();
  }
  arrived_ = 0;
  changed_ = false;
  server_.answer(all_workers_, said_);
}

// The mean of equal weights may be another one, rounded: where no worker changed them, the first one's are taken.
void ServerSide::average() {
  for (const Server::Part& part : memory_.server.parts) {
    if (part.range.count == 0) continue;
    server_.combine(comm::Reduction::mean, changed_ ? part.pushed : std::vector{part.pushed.front()}, part.weights);
  }
}

// The sum of all workers' gradients takes the place of the first one.
void ServerSide::update_together(const Server::Visit& visit) {
  for (const Server::Part& part : memory_.server.parts) {
    if (part.range.count > 0) server_.combine(comm::Reduction::sum, part.pushed, part.pushed.front());
  }
  const layout::KeyRanges& ranges = memory_.server.ranges;
  if (const layout::Range rows = ranges.tied(memory_.server.number); rows.count > 0) {
    const Tensor& sum = memory_.server.rows.front();
    server_.combine(comm::Reduction::sum, memory_.server.rows, sum);
    const Server::Part& tied = memory_.server.parts[static_cast<std::size_t>(ranges.tied().value)];
    ops_.elementwise().add(tied.pushed.front().flat(0, rows.count), sum);
  }
  said_.norm = norm();
  update(0, {.learning_rate = visit.figures.learning_rate,
             .clip_factor = clip_factor(said_.norm, config_.grad_clip),
             .finite = std::isfinite(said_.norm) && visit.figures.finite != 0});
}

// As parallel::GlobalNorm does it over as many ranks as there are workers.
double ServerSide::norm() {
  const layout::KeyRanges& ranges = memory_.server.ranges;
  std::ranges::fill(elements<double>(memory_.squares.host), 0.0);
  upload(ops_.stream(), memory_.squares);
  for (std::size_t u = 0; u < memory_.server.parts.size(); ++u) {
    const Server::Part& part = memory_.server.parts[u];
    const layout::KeyRanges::Cells cells = ranges.cells(part.unit, memory_.server.number);
    for (int c = cells.first; c < cells.last; ++c) {
      const layout::Range range = ranges.cell(part.unit, c);
      const Tensor gradient = part.pushed.front().flat(range.first - part.range.first, range.count);
      ops_.reduce().sum_of_squares(memory_.squares.device.flat(static_cast<std::int64_t>(u * workers()) + c, 1), gradient);
    }
  }
  servers_.all_reduce(memory_.squares.device, comm::Reduction::sum).join(ops_.stream());
  download(ops_.stream(), memory_.squares);
  const std::span<const double> squares = elements<const double>(memory_.squares.host);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

bool ServerSide::update(int pushed_by, const UpdateNumbers& numbers) {
  optimizer_->update(ops_, server_.state(pushed_by), memory_.scalars, numbers);
  said_.made = static_cast<double>(updates());
  return numbers.finite;
}

void ServerSide::update_apart(const Server::Visit& visit) {
  Progress& worker = progress_[static_cast<std::size_t>(visit.worker)];
  const double root = std::sqrt(static_cast<double>(workers()));
  const auto stale = static_cast<double>(updates() - worker.pulled);
  if (update(visit.worker, {.learning_rate = visit.figures.learning_rate / root,
                            .clip_factor = visit.figures.clip_factor,
                            .finite = visit.figures.finite != 0})) {
    said_.updates += 1;
    said_.staleness_sum += stale;
    said_.staleness_max = std::max(said_.staleness_max, stale);
  }
  worker.steps = visit.step + 1;
  worker.loss_sum = visit.figures.loss_sum;
  worker.targets = visit.figures.targets;
  worker.waits = true;
  // No worker has gone further than one step beyond the foremost one's last: there all can meet.
  const auto foremost = std::ranges::max(progress_, {}, &Progress::steps).steps;
  const auto last = std::ranges::min(progress_, {}, &Progress::steps).steps;
  if (static_cast<double>(last) > said_.meet_at) said_.meet_at = 0;
  const bool wanted = visit.figures.wants_halt != 0 || said_.stop_cause != 0;
  if (wanted && said_.meet_at == 0) said_.meet_at = static_cast<double>(foremost + 1);
  release();
}

// Answers every worker that is not too far ahead of the slowest.
void ServerSide::release() {
  const auto slowest = std::ranges::min(progress_, {}, &Progress::steps).steps;
  double sum = 0, targets = 0;
  for (const Progress& worker : progress_) {
    sum += worker.loss_sum;
    targets += worker.targets;
  }
  said_.loss = sum / std::max(targets, 1.0);
  for (std::size_t w = 0; w < workers(); ++w) {
    Progress& worker = progress_[w];
    if (!worker.waits || (options_.staleness && worker.steps - slowest > *options_.staleness)) continue;
    worker.waits = false;
    worker.pulled = updates();
    const int number = static_cast<int>(w);
    server_.answer({&number, 1}, said_);
  }
}

}  // namespace lockstep::train
