#include "parallel/server/server.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "comm/combine.h"

namespace lockstep::parallel {

Server::Server(comm::Communicator& world, const ServerMemory& memory, Team& team)
    : world_(world), memory_(memory), team_(team), callers_(static_cast<std::size_t>(ranges().workers())) {
  ensure(world.size() == ranges().workers() + ranges().servers() && world.rank() == ranges().workers() + memory.number,
         "a server is one of the last ranks");
}

void Server::combine(comm::Reduction reduction, const std::vector<Tensor>& pushed, const Tensor& out) {
  std::vector<const std::byte*> sources;
  for (const Tensor& tensor : pushed) sources.push_back(tensor.data);
  std::vector<std::byte*> destination{out.data};
  constexpr std::int64_t tile = 1 << 15;  // elements
  const std::int64_t count = out.elements();
  team_.for_each(div_up(count, tile), [&](std::int64_t index, int) {
    const std::int64_t first = index * tile;
    comm::combine(reduction, out.dtype, sources, destination, first, std::min(tile, count - first));
  });
}

TrainingState& Server::state(int worker) {
  state_.worker = static_cast<std::size_t>(worker);
  return state_;
}

void Server::State::visit(const Use& use, Call call, void* body) {
  for (const Part& part : server_.memory_.parts) {
    if (part.range.count == 0) continue;
    StateRange range{.unit = part.unit, .range = part.range, .master = part.weights, .published = part.weights};
    range.own = part.range;
    if (use.gradients) range.gradient = part.pushed[worker];
    if (use.slots) {
      range.slots = part.slots;
      range.own_slots = part.range;
    }
    call(body, range);
  }
}

void Server::listen(int worker) {
  Caller& c = caller(worker);
  c.stage = Stage::calling;
  c.last = world_.receive(record(c.call), worker);
}

void Server::expect_push(int worker) {
  Caller& c = caller(worker);
  const auto w = static_cast<std::size_t>(worker);
  c.stage = Stage::pushing;
  for (const UnitIndex unit : ranges().order()) {
    const Part& part = memory_.parts[static_cast<std::size_t>(unit.value)];
    if (part.range.count > 0) c.pieces.push_back(world_.moving(comm::Purpose::gradients).receive(part.pushed[w], worker));
  }
  if (memory_.keeps.rows && ranges().tied(memory_.number).count > 0)
    c.pieces.push_back(world_.moving(comm::Purpose::gradients).receive(memory_.rows[w], worker));
  c.last = world_.receive(record(c.figures), worker);
}

Server::Visit Server::next() {
  while (true) {
    std::vector<comm::Request*> open;
    std::vector<int> who;
    for (int w = 0; w < ranges().workers(); ++w) {
      if (caller(w).stage == Stage::idle) listen(w);
      if (caller(w).stage == Stage::visiting || caller(w).stage == Stage::gone) continue;
      open.push_back(&caller(w).last);
      who.push_back(w);
    }
    const int worker = who[comm::wait_any(open, turn_++)];
    Caller& c = caller(worker);
    const auto errand = static_cast<Errand>(static_cast<int>(c.call.errand));
    if (c.stage == Stage::calling && errand == Errand::push) {
      expect_push(worker);
      continue;
    }
    for (comm::Request& piece : c.pieces) piece.wait();
    c.pieces.clear();
    c.stage = errand == Errand::leave ? Stage::gone : Stage::visiting;
    return {worker, errand, static_cast<std::int64_t>(c.call.step), static_cast<std::int64_t>(c.call.updates), c.figures};
  }
}

void Server::answer(std::span<const int> workers, const Answer& answer) {
  answer_ = answer;
  for (const Part& part : memory_.parts) {
    if (part.range.count == 0) continue;
    for (const int w : workers) sends_.push_back(world_.moving(comm::Purpose::weights).send(part.weights, w));
  }
  for (const int w : workers) sends_.push_back(world_.send(record(answer_), w));
  for (comm::Request& send : sends_) send.wait();
  sends_.clear();
  for (const int w : workers) done_with(w);
}

void Server::give_weights(int worker) {
  for (const Part& part : memory_.parts) {
    if (part.range.count > 0) world_.moving(comm::Purpose::weights).send(part.weights, worker).wait();
  }
  done_with(worker);
}

void Server::take_state(int worker) {
  for (const Part& part : memory_.parts) {
    if (part.range.count == 0) continue;
    world_.moving(comm::Purpose::weights).receive(part.weights, worker).wait();
    for (const Tensor& slot : part.slots) world_.receive(slot, worker).wait();
  }
  done_with(worker);
}

void Server::give_slots(int worker) {
  for (const Part& part : memory_.parts) {
    for (const Tensor& slot : part.slots) {
      if (part.range.count > 0) world_.send(slot, worker).wait();
    }
  }
  auto made = static_cast<double>(state_.updates());
  world_.send(record(made), worker).wait();
  done_with(worker);
}

}  // namespace lockstep::parallel
