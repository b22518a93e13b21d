#include "checkpoint/replicated.h"

#include <vector>

#include "checkpoint/held_unit.h"

namespace lockstep::checkpoint {
namespace {

layout::Range part_of(const UnitBuffer& buffer, const comm::Communicator& ranks) {
  return layout::range_of(*buffer.unit, ranks.rank(), ranks.size());
}

}  // namespace

void read_whole(RangeReader& reader, std::span<const UnitBuffer> buffers, comm::Communicator& replicas, comm::Communicator& ranks,
                const HostPieces& pieces, Team& team) {
  for (const UnitBuffer& buffer : buffers) {
    const layout::Range mine = part_of(buffer, replicas);
    pieces.change(buffer.values.flat(mine.first, mine.count), [&](const Tensor& piece, std::int64_t first) {
      reader.fill(hold(*buffer.unit, {mine.first + first, piece.elements()}, piece, buffer.suffix), team);
    });
  }
  reader.finish(ranks);
  if (replicas.size() == 1) return;
  for (const UnitBuffer& buffer : buffers) {
    const layout::Range mine = part_of(buffer, replicas);
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < replicas.size(); ++rank)
      counts.push_back(layout::range_of(*buffer.unit, rank, replicas.size()).count);
    replicas.all_gather(buffer.values, buffer.values.flat(mine.first, mine.count), counts).wait();
  }
}

}  // namespace lockstep::checkpoint
