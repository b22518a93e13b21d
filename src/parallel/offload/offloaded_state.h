#pragma once

// Training state of which some kinds lie elsewhere, in ranges (ZeRO-Infinity: Rajbhandari et al. 2021). A visit brings each range
// into one of a few buffers. Meanwhile the range before is in use, and the one before that is written back. Visits that need no
// such kind find the state in memory, a unit at a time.

#include "parallel/offload/offload_memory.h"
#include "parallel/zero/resident_state.h"

namespace lockstep::parallel {

class OffloadedState final : public ResidentState {
 public:
  /// The state is cut as the stores and `memory` are. Where slots lie elsewhere, parts.slots has only their names and type. All
  /// arguments outlive this.
  OffloadedState(const ResidentParts& parts, const OffloadMemory& memory);
  bool stays(const Use& use) const override;

 private:
  /// The moves of a range that is brought, by column.
  struct Buffer {
    std::vector<Spill::Move> moves;
  };
  /// Buffers are at rest when a visit ends, by an error too.
  class AtRest;
  void visit(const Use& use, Call call, void* body) override;
  void bring(Buffer& buffer, std::size_t place, const OffloadRecord& record, const Use& use);
  void arrive(Buffer& buffer);
  void put_away(Buffer& buffer);
  StateRange range_in(std::size_t place, const OffloadRecord& record, const Use& use);

  const OffloadMemory& memory_;
  std::array<Buffer, OffloadMemory::buffer_count> buffers_;
  std::vector<Tensor> brought_;  ///< slots of the range that is visited
};

}  // namespace lockstep::parallel
