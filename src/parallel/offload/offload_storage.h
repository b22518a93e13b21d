#pragma once

// Where offloaded state lies, and its way into buffers and back.

#include <memory>
#include <string>
#include <vector>

#include "device/stream.h"
#include "parallel/offload/offload_memory.h"

namespace lockstep::parallel {

class OffloadStorage {
 public:
  virtual ~OffloadStorage() = default;
  /// What is brought or put away of a record.
  struct Kinds {
    bool masters = false, slots = false;
    bool has(OffloadKind kind) const { return kind == OffloadKind::masters ? masters : slots; }
  };
  // A buffer goes round: bring, arrive, put_away (where it was changed), leave. Two of them return before the bytes have moved.
  virtual void bring(std::size_t buffer, std::size_t record, const Kinds& kinds) = 0;
  /// Until the record is in the device's buffer. Throws SystemError when it is not what was put away.
  virtual void arrive(std::size_t buffer) = 0;
  virtual void put_away(std::size_t buffer) = 0;
  /// Until the buffer may be used for another record.
  virtual void leave(std::size_t buffer) = 0;
  /// What a buffer holds of the record that was brought, on the device: the masters, or all slots one after another, each in
  /// whole blocks.
  virtual std::byte* at(std::size_t buffer, OffloadKind kind) = 0;
  /// Where and how, in words.
  virtual std::string description() const = 0;
};

/// Over memory that is committed; what was never put away is zero. `units` names what is damaged. The arguments outlive it.
/// Throws UserError where the disk refuses.
std::unique_ptr<OffloadStorage> open_offload_storage(const OffloadMemory& memory, const std::vector<layout::Unit>& units,
                                                     Stream& stream);

}  // namespace lockstep::parallel
