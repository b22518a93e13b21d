#include "parallel/zero/gradients.h"

#include "base/error.h"

namespace lockstep::parallel {

ZeroGradients::ZeroGradients(const std::vector<layout::Unit>& units, comm::Communicator& group) : group_(group) {
  for (const layout::Unit& unit : units) entries_.push_back({unit.name, unit.elements, {}, 0, {}});
}

void ZeroGradients::declare(Arena& arena) {
  for (Entry& entry : entries_) arena.declare(entry.flat, entry.name, Shape{entry.elements}, DType::f32);
}

void ZeroGradients::begin(int microbatches) {
  microbatches_ = microbatches;
  for (Entry& entry : entries_) entry.opened = 0;
}

OpenGradient ZeroGradients::open(UnitIndex unit, Microbatch microbatch) {
  Entry& e = entry(unit);
  ensure(microbatch.value == e.opened, "gradients accumulate in the order of micro-batches");
  ++e.opened;
  return {e.flat, microbatch.value > 0};
}

void ZeroGradients::close(UnitIndex unit, Microbatch microbatch) {
  Entry& e = entry(unit);
  ensure(microbatch.value + 1 == e.opened, "what is closed was opened");
  if (e.opened == microbatches_) e.reduction = group_.all_reduce(e.flat, comm::Reduction::sum);
}

void ZeroGradients::finish() {
  for (Entry& e : entries_) {
    ensure(e.opened == microbatches_, "every unit got the gradient of every micro-batch");
    e.reduction.wait();
  }
}

GradientStore::Shard ZeroGradients::shard(UnitIndex unit) { return {entry(unit).flat, 0}; }

}  // namespace lockstep::parallel
