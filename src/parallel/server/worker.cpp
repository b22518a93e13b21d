#include "parallel/server/worker.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lockstep::parallel {

Worker::Worker(comm::Communicator& world, layout::KeyRanges ranges)
    : world_(world), ranges_(std::move(ranges)), answers_(static_cast<std::size_t>(ranges_.servers())) {
  ensure(world.size() == ranges_.workers() + ranges_.servers() && world.rank() < ranges_.workers(),
         "a worker is one of the first ranks");
}

void Worker::send(const Tensor& flat, layout::Range range, int server) {
  if (range.count > 0)
    requests_.push_back(world_.moving(comm::Purpose::gradients).send(flat.flat(range.first, range.count), rank_of(server)));
}

void Worker::receive(const Tensor& flat, layout::Range range, int server) {
  if (range.count > 0)
    requests_.push_back(world_.moving(comm::Purpose::weights).receive(flat.flat(range.first, range.count), rank_of(server)));
}

void Worker::finish() {
  for (comm::Request& request : requests_) request.wait();
  requests_.clear();
}

void Worker::call(Errand errand, std::int64_t step, std::int64_t updates) {
  ensure(requests_.empty(), "a worker is on one errand at a time");
  call_ = {static_cast<double>(errand), static_cast<double>(step), static_cast<double>(updates)};
  for (int s = 0; s < ranges_.servers(); ++s) requests_.push_back(world_.send(record(call_), rank_of(s)));
}

void Worker::begin_push(std::int64_t step) { call(Errand::push, step); }

void Worker::push(UnitIndex unit, const Tensor& flat) {
  for (int s = 0; s < ranges_.servers(); ++s) send(flat, ranges_.of(unit, s), s);
}

void Worker::push_rows(const Tensor& table) {
  for (int s = 0; s < ranges_.servers(); ++s) send(table, ranges_.tied(s), s);
}

void Worker::receive_weights(int server, std::span<const Tensor> weights) {
  for (int u = 0; u < ranges_.unit_count(); ++u) {
    receive(weights[static_cast<std::size_t>(u)], ranges_.of(UnitIndex{u}, server), server);
  }
}

Answer Worker::finish_push(const Figures& figures, std::span<const Tensor> weights) {
  figures_ = figures;
  for (int s = 0; s < ranges_.servers(); ++s) requests_.push_back(world_.send(record(figures_), rank_of(s)));
  for (int s = 0; s < ranges_.servers(); ++s) {
    receive_weights(s, weights);
    requests_.push_back(world_.receive(record(answers_[static_cast<std::size_t>(s)]), rank_of(s)));
  }
  finish();
  Answer answer = answers_.front();
  for (const Answer& other : answers_) answer.stop_cause = std::max(answer.stop_cause, other.stop_cause);
  return answer;
}

void Worker::pull(std::span<const Tensor> weights) {
  call(Errand::pull);
  for (int s = 0; s < ranges_.servers(); ++s) receive_weights(s, weights);
  finish();
}

void Worker::load(std::int64_t step, std::int64_t updates, std::span<const UnitState> units) {
  call(Errand::load, step, updates);
  for (int s = 0; s < ranges_.servers(); ++s) {
    for (int u = 0; u < ranges_.unit_count(); ++u) {
      const UnitState& unit = units[static_cast<std::size_t>(u)];
      send(unit.weights, ranges_.of(UnitIndex{u}, s), s);
      for (const Tensor& slot : unit.slots) send(slot, ranges_.of(UnitIndex{u}, s), s);
    }
  }
  finish();
}

std::int64_t Worker::fetch_slots(std::span<const UnitState> units) {
  call(Errand::slots);
  std::vector<double> made(static_cast<std::size_t>(ranges_.servers()));
  for (int s = 0; s < ranges_.servers(); ++s) {
    for (int u = 0; u < ranges_.unit_count(); ++u) {
      for (const Tensor& slot : units[static_cast<std::size_t>(u)].slots) receive(slot, ranges_.of(UnitIndex{u}, s), s);
    }
    requests_.push_back(world_.receive(record(made[static_cast<std::size_t>(s)]), rank_of(s)));
  }
  finish();
  ensure(std::ranges::count(made, made.front()) == std::ssize(made), "all servers have made as many updates");
  return static_cast<std::int64_t>(made.front());
}

void Worker::leave() {
  call(Errand::leave);
  finish();
}

}  // namespace lockstep::parallel
