#pragma once

// State that several ranks hold alike: each rank reads its part, and what was read goes to the others.

#include <span>
#include <string_view>

#include "checkpoint/weight_source.h"
#include "layout/unit.h"
#include "tensor/host_pieces.h"

namespace lockstep::checkpoint {

/// A flat buffer of a unit: its weights, or what an optimizer keeps of them. In files it is "<parameter><suffix>".
struct UnitBuffer {
  const layout::Unit* unit;
  Tensor values;  ///< all elements of the unit
  std::string_view suffix = {};
};

/// Fills buffers that all of `replicas` hold, by way of `pieces`. Each rank reads its part, then all have the whole. `ranks`:
/// those that read together, the replicas among them. The reader is ended, and what its finish() throws is thrown. Collective
/// over both.
void read_whole(RangeReader& reader, std::span<const UnitBuffer> buffers, comm::Communicator& replicas, comm::Communicator& ranks,
                const HostPieces& pieces, Team& team);

}  // namespace lockstep::checkpoint
