#include "parallel/server/server_memory.h"

namespace lockstep::parallel {

ServerMemory::ServerMemory(layout::KeyRanges all, Keeps kept, int server)
    : ranges(std::move(all)), keeps(std::move(kept)), number(server), rows(static_cast<std::size_t>(ranges.workers())) {
  ensure(server >= 0 && server < ranges.servers(), "a server is one of the servers");
  for (int u = 0; u < ranges.unit_count(); ++u) {
    parts.push_back({.unit = UnitIndex{u},
                     .range = ranges.of(UnitIndex{u}, number),
                     .weights = {},
                     .slots = std::vector<Tensor>(keeps.slots.size()),
                     .pushed = std::vector<Tensor>(rows.size())});
  }
}

void ServerMemory::declare(Arena& parameters, Arena& optimizer, Arena& gradients) {
  for (Part& part : parts) {
    const std::string& name = ranges.unit(part.unit).name;
    const Shape shape{part.range.count};
    const Arena::InLayer weights_in(parameters, name), slots_in(optimizer, name), pushed_in(gradients, name);
    parameters.declare(part.weights, "weights", shape, keeps.type);
    for (std::size_t s = 0; s < part.slots.size(); ++s) optimizer.declare(part.slots[s], keeps.slots[s], shape, keeps.slot_type);
    for (Tensor& pushed : part.pushed) gradients.declare(pushed, "pushed by workers", shape, keeps.pushed);
  }
  if (!keeps.rows) return;
  for (Tensor& of_worker : rows) gradients.declare(of_worker, "rows of a worker", Shape{ranges.tied(number).count}, DType::f32);
}

}  // namespace lockstep::parallel
