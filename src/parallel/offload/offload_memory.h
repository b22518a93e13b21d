#pragma once

// What a rank's offloaded state of the optimizer is laid out as, declared from sizes alone: master copies and slots of each
// range, which lie in a file or in the host's memory, and the few buffers through which they pass.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "io/spill_file.h"
#include "layout/parallel_plan.h"
#include "layout/state_cut.h"
#include "layout/unit.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// How state is offloaded; none of it changes a bit.
struct OffloadOptions {
  io::Path folder = ".";                  ///< of the file
  std::int64_t range_elements = 1 << 20;  ///< that are brought at a time, at most
  io::SpillWays ways = {};
};

/// Kinds of state that are brought and written back by themselves.
enum class OffloadKind : std::uint8_t { masters, slots };
inline constexpr std::array offload_kinds{OffloadKind::masters, OffloadKind::slots};

/// A range of a unit, as it lies in the file or the host's memory and in a buffer: whole blocks of each kind.
struct OffloadRecord {
  UnitIndex unit;
  layout::Range range;
  std::int64_t offset = 0;                 ///< of the first byte where it lies
  std::array<std::int64_t, 2> bytes = {};  ///< of each kind, one after the other
  std::int64_t begin(OffloadKind kind) const { return kind == OffloadKind::masters ? 0 : bytes[0]; }
  std::int64_t bytes_of(OffloadKind kind) const { return bytes[static_cast<std::size_t>(kind)]; }
};

struct OffloadMemory {
  /// The next range is read while one is in use and the last is written.
  static constexpr std::size_t buffer_count = 3;

  /// What of the units a rank keeps offloaded.
  struct Needs {
    layout::Tier tier = layout::Tier::disk;  ///< host or disk
    layout::StateCut cut = {};
    bool masters = false;  ///< copies in f32; the weights are their own otherwise
    DType slot_type = DType::f32;
    int slots = 0;
  };
  void declare(Arena& device, Arena& host, const std::vector<layout::Unit>& units, const Needs& needs,
               const OffloadOptions& options);
  /// Something is offloaded.
  bool used() const { return !records.empty(); }
  /// Of all ranges.
  std::int64_t bytes() const { return bytes_; }

  Needs needs;
  OffloadOptions options;
  std::vector<OffloadRecord> records;        ///< in the order of units and of elements
  std::array<Mirror, buffer_count> buffers;  ///< u8; the host's side is for a disk alone
  Tensor kept;                               ///< u8; where the host's memory keeps the state

 private:
  std::int64_t bytes_ = 0;
};

}  // namespace lockstep::parallel
