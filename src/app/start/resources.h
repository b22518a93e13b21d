#pragma once

// What a run had and took, as resources.json in its folder says it: what the planner's predictions are held against.

#include <array>
#include <cstdint>
#include <string>

#include "io/file.h"
#include "tensor/ledger.h"

namespace lockstep::app {

/// All kinds of memory that a ledger counts.
inline constexpr std::array kMemoryKinds{MemoryKind::parameters,  MemoryKind::gradients, MemoryKind::optimizer,
                                         MemoryKind::activations, MemoryKind::workspace, MemoryKind::data};

struct Resources {
  std::int64_t ranks = 1;           ///< that train
  std::int64_t servers = 0;         ///< and parameter servers
  std::int64_t ranks_per_host = 1;  ///< 0: hosts have different numbers
  std::int64_t threads = 1;         ///< of rank 0
  std::string device = "cpu";       ///< its kind
  std::int64_t vocabulary = 0;
  double peak_flops = 0;                   ///< of rank 0, that its MFU is a share of
  std::array<std::int64_t, 6> taken = {};  ///< bytes of rank 0's training, in the order of kMemoryKinds
  std::int64_t beside = 0;                 ///< bytes of its batches and text samples
  std::int64_t disk = 0;                   ///< bytes that it keeps on a disk
  std::int64_t kept_parts = 0;             ///< parts of the weights that memory.limit leaves room to keep

  /// Bytes of the training, its batches and text samples.
  std::int64_t all_bytes() const;
  /// Bytes of the training that live from one iteration to the next: neither activations nor workspace.
  std::int64_t kept_bytes() const;
};
std::array<std::int64_t, 6> by_kind(const Ledger& ledger);

void write_resources(const io::Path& folder, const Resources& resources);
/// Throws UserError where the folder has none, or something else.
Resources read_resources(const io::Path& folder);

}  // namespace lockstep::app
