#pragma once

// The part of a rank's training state that lies elsewhere, on a disk or in the host's memory. It has weights, master copies,
// gradients and the optimizer's slots, in ranges of units. Ranges pass through a few buffers. All of it is declared from sizes
// alone.

#include <array>
#include <vector>

#include "layout/state_cut.h"
#include "layout/unit.h"
#include "parallel/offload/spill.h"

namespace lockstep::parallel {

/// A kind of state that lies elsewhere.
struct OffloadColumn {
  enum class Kind : std::uint8_t { weights, masters, gradients, slot } kind = Kind::weights;
  std::size_t slot = 0;  ///< which of the slots
  DType type = DType::f32;
  std::vector<int> numbers;  ///< by unit: its tensor's number in the Spill; -1: none
  std::int64_t first = 0;    ///< the column's first byte in each buffer
};

/// A range of a unit: what is brought at a time.
struct OffloadRecord {
  UnitIndex unit;
  layout::Range range;  ///< of the unit's elements
};

struct OffloadMemory {
  /// The next range is read while one is in use and the last is written.
  static constexpr std::size_t buffer_count = 3;

  /// What the optimizer has of each weight, where that lies elsewhere.
  struct Needs {
    layout::Tier tier = layout::Tier::device;
    bool masters = false;  ///< there are copies in f32; otherwise the weights are the masters
    DType slot_type = DType::f32;
    int slots = 0;
  };
  /// `cut`: which part of each of `units` this rank has. `others`: the columns of weights and gradients, which other owners have
  /// declared.
  void declare(Arena& device, const std::vector<layout::Unit>& units, const layout::StateCut& cut, const Needs& needs,
               std::vector<OffloadColumn> others, const OffloadOptions& options, Spill& spill);
  /// Whether something is offloaded.
  bool used() const { return !columns.empty(); }

  Spill* spill = nullptr;
  layout::StateCut cut;
  std::vector<OffloadColumn> columns;
  std::vector<OffloadRecord> records;        ///< in the order of units and of elements
  std::array<Mirror, buffer_count> buffers;  ///< u8
};

/// Declares what the rank has of each unit, or of each unit that is trained, as a tensor. Returns the tensors' numbers by unit.
std::vector<int> declare_units(Spill& spill, const std::vector<layout::Unit>& units, const layout::StateCut& cut,
                               const Spill::Needs& like, bool trained_alone = false);

}  // namespace lockstep::parallel
