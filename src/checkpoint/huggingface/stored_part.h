#pragma once

// Elements of a published tensor in a file, in our order: rows of output features, whichever way round the file has them.

#include <cstdint>
#include <span>
#include <vector>

#include "arch/huggingface/tensors.h"
#include "checkpoint/huggingface/elements.h"
#include "checkpoint/tensor_file.h"
#include "io/file.h"

namespace lockstep::checkpoint::huggingface {

/// Memory that reading and writing use, kept from one call to the next.
struct Scratch {
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

/// Elements that are moved at a time, in whole rows where a row is shorter.
inline constexpr std::int64_t elements_of_piece = 16 * piece_bytes / 4;
/// Elements of a row of a parameter, in our order.
inline std::int64_t columns_of(const Shape& shape) { return shape.rank() == 2 ? shape[1] : 1; }

struct StoredPart {
  arch::huggingface::Part part;
  io::File* file;  ///< not owned
  std::uint64_t offset;
  ElementType type;

  std::int64_t columns() const { return part.shape.rank() < 2 ? 1 : part.transposed ? part.shape[0] : part.shape[1]; }
  std::int64_t elements() const { return part.shape.elements(); }

  /// Elements [first, first + to.size()), counted in rows of columns().
  void read(std::int64_t first, std::span<float> to, Scratch& scratch) const;
  /// The same range, written. Whether every finite value is still finite in the file's type.
  [[nodiscard]] bool write(std::int64_t first, std::span<const float> from, Scratch& scratch) const;
};

}  // namespace lockstep::checkpoint::huggingface
