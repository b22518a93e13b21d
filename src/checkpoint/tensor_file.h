#pragma once

// Tensors into safetensors files. A tensor is logical: a global name and shape that everybody agrees on, of whose elements
// somebody holds some ranges. Where a range goes follows from the table of all tensors, so that many can write one file.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/team.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "tensor/named.h"
#include "tensor/tensor.h"

namespace lockstep::checkpoint {

/// A parameter of the model, whoever holds which part of it.
struct LogicalTensor {
  std::string name;  ///< global name
  Shape shape;       ///< global shape
  DType dtype = DType::f32;
};

/// Elements [first, first + values.elements()) of a logical tensor, counted in row-major order of its global shape. `values`
/// is dense host memory of the tensor's type, owned by somebody else.
struct HeldRange {
  std::int64_t first = 0;
  Tensor values;
};

struct HeldTensor {
  LogicalTensor tensor;
  std::vector<HeldRange> ranges;
};

/// All of a tensor, held here.
HeldTensor hold_whole(std::string name, const Tensor& tensor);
std::vector<LogicalTensor> logical(std::span<const HeldTensor> tensors);

/// The elements are moved in pieces of this size: the checksum finds them in the cache.
inline constexpr std::int64_t piece_bytes = std::int64_t{256} * 1024;

/// Writes one file whose table of tensors is known from the start.
class TensorFileWriter {
 public:
  /// Gives `file` (not owned) its size and its header.
  TensorFileWriter(io::File& file, std::span<const LogicalTensor> tensors, io::SafetensorsMetadata metadata = {});

  const io::SafetensorsHeader& header() const { return header_; }
  std::uint64_t header_checksum() const { return header_checksum_; }

  /// Writes a range of tensor `index` of the table. Several threads may write ranges that do not overlap.
  void write(std::size_t index, const HeldRange& range);
  /// Writes all ranges; `tensors` is the table of the constructor. Throws what the file throws.
  void write(std::span<const HeldTensor> tensors, cpu::Team& team);
  /// The checksum of what was written of tensor `index` through this object: of all of it when all ranges were.
  std::uint64_t checksum(std::size_t index) const { return checksums_[index]; }

 private:
  io::File& file_;
  std::vector<LogicalTensor> tensors_;
  io::SafetensorsHeader header_;
  std::uint64_t header_checksum_ = 0;
  std::vector<std::uint64_t> offsets_;    ///< by index, as are the checksums
  std::vector<std::uint64_t> checksums_;  ///< added to atomically
};

/// Writes whole tensors; `path` is replaced at once or not at all.
void write_tensors(const io::Path& path, const NamedTensors& tensors, io::SafetensorsMetadata metadata = {});

}  // namespace lockstep::checkpoint
