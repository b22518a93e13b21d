#include "parallel/offload/offload_memory.h"

#include <algorithm>

#include "base/checked.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t block = io::SpillFile::block;

std::int64_t blocks_of(std::int64_t elements, DType type) {
  return round_up(elements * static_cast<std::int64_t>(size_of(type)), block);
}

}  // namespace

void OffloadMemory::declare(Arena& device, Arena& host, const std::vector<layout::Unit>& units, const Needs& of,
                            const OffloadOptions& how) {
  ensure(of.tier != layout::Tier::device && how.range_elements >= layout::cut, "what is offloaded lies elsewhere, in ranges");
  needs = of;
  options = how;
  const std::int64_t most = how.range_elements / layout::cut * layout::cut;
  std::int64_t largest = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const layout::Range held = of.cut.held(units[u]);
    for (std::int64_t first = held.first; first < held.end(); first += most) {
      const std::int64_t count = std::min(most, held.end() - first);
      OffloadRecord record{.unit = UnitIndex{static_cast<int>(u)}, .range = {first, count}, .offset = bytes_};
      record.bytes = {of.masters ? blocks_of(count, DType::f32) : 0, of.slots * blocks_of(count, of.slot_type)};
      const std::int64_t bytes = record.bytes[0] + record.bytes[1];
      if (bytes == 0) continue;  // a method without slots
      bytes_ += bytes;
      largest = std::max(largest, bytes);
      records.push_back(record);
    }
  }
  if (!used()) return;
  const bool disk = of.tier == layout::Tier::disk;
  for (Mirror& buffer : buffers) {
    // Files are read into whole blocks of memory; an arena aligns to less.
    const Shape shape{disk ? largest + block : largest};
    disk ? device.declare(buffer, "buffers of offloaded state", shape, DType::u8)
         : device.declare(buffer.device, "buffers of offloaded state", shape, DType::u8);
  }
  if (!disk) host.declare(kept, "offloaded state", Shape{bytes_}, DType::u8);
}

}  // namespace lockstep::parallel
