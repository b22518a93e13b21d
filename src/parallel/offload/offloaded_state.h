#pragma once

// Training state of which master copies and slots lie elsewhere, in ranges (ZeRO-Infinity: Rajbhandari et al. 2021): a visit
// brings each range into one of a few buffers, while the one before is in use and the one before that is written back. Visits
// that need neither find what lies in memory, a unit at a time.

#include <memory>
#include <string>
#include <vector>

#include "parallel/offload/offload_storage.h"
#include "parallel/zero/resident_state.h"

namespace lockstep::parallel {

class OffloadedState final : public ResidentState {
 public:
  /// Of state that is cut as the stores and `memory` are; parts.slots has names and type alone. All outlive this.
  OffloadedState(const ResidentParts& parts, const OffloadMemory& memory, Stream& stream);

  /// Makes the file, where there is one; what is offloaded is zero. Once, after the memory was committed and before any visit.
  /// Throws UserError where the disk refuses.
  void open() { storage_ = open_offload_storage(memory_, units(), stream_); }
  /// Where the state lies and how it gets there, in words; after open().
  std::string description() const { return storage_->description(); }
  bool stays(const Use& use) const override { return !kinds(use).masters && !kinds(use).slots; }

 private:
  /// What is brought for a visit.
  OffloadStorage::Kinds kinds(const Use& use) const {
    return {.masters = use.weights && memory_.needs.masters, .slots = use.slots && memory_.needs.slots > 0};
  }
  void visit(const Use& use, Call call, void* body) override;
  StateRange range_in(std::size_t buffer, const OffloadRecord& record, const Use& use);

  const OffloadMemory& memory_;
  Stream& stream_;
  std::unique_ptr<OffloadStorage> storage_;
  std::vector<Tensor> brought_;  ///< slots of the range that is visited
};

}  // namespace lockstep::parallel
