#include "parallel/offload/offloaded_state.h"

namespace lockstep::parallel {
namespace {

/// Buffers are at rest when a visit ends, by an error too.
class AtRest {
 public:
  explicit AtRest(OffloadStorage& storage) : storage_(storage) {}
  AtRest(const AtRest&) = delete;
  AtRest& operator=(const AtRest&) = delete;
  ~AtRest() {
    for (std::size_t b = 0; b < OffloadMemory::buffer_count; ++b) {
      while (!rests(b)) {
      }
    }
  }

 private:
  // Each failure is that of a move, which is over then.
  bool rests(std::size_t buffer) {
    try {
      storage_.leave(buffer);
      return true;
    } catch (...) {
      return false;  // the error that ends the visit is on its way
    }
  }
  OffloadStorage& storage_;
};

Tensor flat_at(std::byte* data, std::int64_t count, DType type, Device device) {
  Tensor tensor;
  tensor.data = data;
  tensor.shape = Shape{count};
  tensor.dtype = type;
  tensor.device = device;
  return tensor;
}

}  // namespace

OffloadedState::OffloadedState(const ResidentParts& parts, const OffloadMemory& memory, Stream& stream)
    : ResidentState(parts), memory_(memory), stream_(stream), brought_(static_cast<std::size_t>(memory.needs.slots)) {}

void OffloadedState::visit(const Use& use, Call call, void* body) {
  if (stays(use)) return visit_memory(use, call, body);
  ensure(storage_ != nullptr, "offloaded state is opened before it is visited");
  const auto buffer_of = [](std::size_t record) { return record % OffloadMemory::buffer_count; };
  const std::size_t count = memory_.records.size();
  {
    const AtRest at_rest(*storage_);
    storage_->bring(0, 0, kinds(use));
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t buffer = buffer_of(i), next = buffer_of(i + 1);
      if (i + 1 < count) {
        storage_->leave(next);
        storage_->bring(next, i + 1, kinds(use));
      }
      storage_->arrive(buffer);
      call(body, range_in(buffer, memory_.records[i], use));
      if (use.changes) storage_->put_away(buffer);
    }
    for (std::size_t buffer = 0; buffer < OffloadMemory::buffer_count; ++buffer) storage_->leave(buffer);
  }
  if (use.changes) changed();
}

StateRange OffloadedState::range_in(std::size_t buffer, const OffloadRecord& record, const Use& use) {
  StateRange range = range_in_memory(record.unit, use, record.range);
  const std::int64_t count = record.range.count;
  const Device device = memory_.buffers[buffer].device.device;
  if (use.weights && memory_.needs.masters)
    range.master = flat_at(storage_->at(buffer, OffloadKind::masters), count, DType::f32, device);
  if (!use.slots || memory_.needs.slots == 0) return range;
  const std::int64_t each = record.bytes_of(OffloadKind::slots) / memory_.needs.slots;
  for (std::size_t s = 0; s < brought_.size(); ++s) {
    std::byte* const data = storage_->at(buffer, OffloadKind::slots) + static_cast<std::ptrdiff_t>(s) * each;
    brought_[s] = flat_at(data, count, memory_.needs.slot_type, device);
  }
  range.slots = brought_;
  range.own_slots = range.own;
  return range;
}

}  // namespace lockstep::parallel
