#include "tensor/arena.h"

#include <algorithm>

#include "base/checked.h"
#include "device/runtime.h"

namespace lockstep {

namespace {
constexpr std::int64_t crowded = 1024;  // bytes
}  // namespace

void Arena::declare(Tensor& out, std::string name, Shape shape, DType dtype) { reserve(out, std::move(name), shape, dtype, 0); }

void Arena::declare_spread(Tensor& out, std::string name, Shape shape, DType dtype) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const bool crowd = shape.last() > 0 && multiply(shape.last(), size) % crowded == 0;
  reserve(out, std::move(name), shape, dtype, crowd ? shape.last() + alignment / size : 0);
}

void Arena::reserve(Tensor& out, std::string name, Shape shape, DType dtype, std::int64_t row_stride) {
  ensure(!committed(), "tensors are declared before the arena is committed");
  const std::int64_t elements = row_stride == 0 ? shape.elements() : multiply(shape.rows(), row_stride);
  const std::int64_t bytes = round_up(multiply(elements, static_cast<std::int64_t>(size_of(dtype))), alignment);
  out.data = nullptr;
  out.shape = shape;
  out.dtype = dtype;
  out.row_stride = row_stride;
  reservations_.push_back({&out, top_});
  top_ += bytes;
  entries_.push_back({kind_, owner_, std::move(name), bytes, layer_, std::max<std::int64_t>(0, top_ - high_)});
  high_ = std::max(high_, top_);
}

void Arena::declare(Mirror& out, std::string name, Shape shape, DType dtype) {
  reserve(out.device, std::move(name), shape, dtype, 0);
  out.host = out.device;
  twins_.push_back({&out, twin_bytes_});
  twin_entries_.push_back(entries_.back());
  twin_entries_.back().owner = twin_owner();
  twin_entries_.back().taken = entries_.back().bytes;
  twin_bytes_ += entries_.back().bytes;
}

void Arena::divide(std::string name, const std::vector<Part>& parts) {
  ensure(!entries_.empty() && entries_.back().bytes == top_ - reservations_.back().offset, "what is divided was declared last");
  const LedgerEntry all = entries_.back();
  entries_.pop_back();
  std::int64_t end = 0;
  for (const Part& part : parts) {
    end += part.bytes;
    // The last bytes are those that nothing before had.
    const std::int64_t taken = std::clamp<std::int64_t>(end - (all.bytes - all.taken), 0, part.bytes);
    entries_.push_back({kind_, owner_, name, part.bytes, part.layer, taken});
  }
  ensure(end == all.bytes, "layers' parts add up to what they divide");
}

void Arena::rewind(Mark to) {
  ensure(!committed(), "an arena is rewound before it is committed");
  ensure(to >= 0 && to <= top_, "an arena is rewound to an earlier mark");
  top_ = to;
}

void Arena::commit(MemorySource& source, Ledger& ledger) { allocate(source, nullptr, ledger); }

void Arena::commit(Runtime& runtime, Ledger& ledger) { allocate(runtime.memory(), &runtime.memory(Space::pinned), ledger); }

void Arena::commit(Runtime& runtime, MemorySource& source, Ledger& ledger) {
  ensure(source.device() == runtime.device(), "memory is that of the runtime's device");
  allocate(source, &runtime.memory(Space::pinned), ledger);
}

void Arena::allocate(MemorySource& source, MemorySource* pinned, Ledger& ledger) {
  ensure(!committed(), "an arena is committed once");
  const Device device = source.device();
  ensure(twins_.empty() || device.is_host() || pinned != nullptr, "what a device and the host both use has memory of both");
  memory_ = source.allocate(static_cast<std::size_t>(std::max(high_, alignment)));  // an empty arena is committed too
  for (const Reservation& reservation : reservations_) {
    reservation.out->data = memory_.data() + reservation.offset;
    reservation.out->device = device;
  }
  if (!twins_.empty() && !device.is_host()) twin_memory_ = pinned->allocate(static_cast<std::size_t>(twin_bytes_));
  for (const Twin& twin : twins_) {
    twin.mirror->host = twin.mirror->device;
    if (device.is_host()) continue;
    twin.mirror->host.data = twin_memory_.data() + twin.offset;
    twin.mirror->host.device = pinned->device();
  }
  enter(ledger, device);
}

void Arena::enter(Ledger& ledger, Device device) const {
  ledger.add(kind_, owner_, high_, entries_);
  if (!twins_.empty() && !device.is_host()) ledger.add(kind_, twin_owner(), twin_bytes_, twin_entries_);
}

}  // namespace lockstep
