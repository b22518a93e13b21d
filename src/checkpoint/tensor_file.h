#pragma once

// Tensors into safetensors files. A tensor is logical: a global name and shape that all ranks agree on, of whose elements each
// rank holds some ranges. Where a range goes follows from the table of all tensors, so that many can write one file.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/team.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "tensor/tensor.h"

namespace lockstep::checkpoint {

/// A whole tensor.
struct NamedTensor {
  std::string name;  ///< global name: "transformer.h.0.attn.c_attn.weight"
  Tensor tensor;     ///< a view; the list owns nothing
};

using NamedTensors = std::vector<NamedTensor>;

/// A parameter of the whole model; ranks may hold parts of it.
struct LogicalTensor {
  std::string name;  ///< global name
  Shape shape;       ///< global shape
  DType dtype = DType::f32;
};

/// Elements of a logical tensor, counted in row-major order of its global shape. Without a stride they are `values`, one after
/// another from element `first` on. With a stride, row `i` of `values` begins at element `first + i stride`. `values` is dense
/// host memory of the tensor's type, not owned.
struct HeldRange {
  std::int64_t first = 0;
  Tensor values;
  std::int64_t stride = 0;
  /// Where several ranks hold the same elements one of them counts them: only it writes them, and its reading is summed up.
  bool counts = true;
};

/// Throws BrokenRule unless the range is dense, of the tensor's type and lies within it.
void check_range(const HeldRange& range, const LogicalTensor& tensor);
/// Calls run(first element in the tensor, the values) for all of a range, in its order and in pieces that fit a processor's
/// cache.
void for_each_run(const HeldRange& range, const std::function<void(std::int64_t first, const Tensor& values)>& run);
/// The range in parts of at most part_bytes, for threads to share. A part is larger where one row of `values` alone is.
std::vector<HeldRange> parts_of(const HeldRange& range);

struct HeldTensor {
  LogicalTensor tensor;
  std::vector<HeldRange> ranges;
};

/// All of a tensor, held here.
HeldTensor hold_whole(std::string name, const Tensor& tensor);
std::vector<LogicalTensor> logical(std::span<const HeldTensor> tensors);

/// What one rank, or all of them, moved of a tensor: how many elements, and their part of the tensor's checksum, which is a sum.
struct Tally {
  std::uint64_t checksum = 0;  ///< io::checksum of the elements, summed modulo 2^64
  std::int64_t elements = 0;
  /// Adds to both. Several threads may call it at once.
  void add(std::uint64_t checksum_of, std::int64_t count);
};

/// Every tally becomes the sum of all ranks' tallies of the same place. Collective.
void add_over(comm::Communicator& ranks, std::span<Tally> tallies);

/// The elements are moved in pieces of this size: the checksum finds them in the cache.
inline constexpr std::int64_t piece_bytes = std::int64_t{256} * 1024;
/// Threads share ranges in parts of this size.
inline constexpr std::int64_t part_bytes = 16 * piece_bytes;

/// Writes one file whose table of tensors is known from the start.
class TensorFileWriter {
 public:
  /// `file` is not owned. Touches nothing yet.
  TensorFileWriter(io::File& file, std::span<const LogicalTensor> tensors, io::SafetensorsMetadata metadata = {});
  /// Gives the file its size and its header: one of the ranks that write a file does it, before the others write.
  void lay_out();

  const io::SafetensorsHeader& header() const { return header_; }
  std::uint64_t header_checksum() const;
  const std::vector<LogicalTensor>& tensors() const { return tensors_; }

  /// Writes a range of tensor `index` of the table, unless it does not count, and returns its part of the tensor's checksum.
  /// Several threads may write ranges that do not overlap.
  std::uint64_t write(std::size_t index, const HeldRange& range);
  /// The share of the checksum that write() returns, but of what the file has now. Reads nothing of range.values.
  std::uint64_t checksum_in_file(std::size_t index, const HeldRange& range) const;
  /// What was written of each tensor through this object.
  const std::vector<Tally>& tallies() const { return tallies_; }

 private:
  io::File& file_;
  std::vector<LogicalTensor> tensors_;
  io::SafetensorsHeader header_;
  std::string header_bytes_;
  std::vector<std::uint64_t> offsets_;  ///< by index, as are the tallies
  std::vector<Tally> tallies_;          ///< added to atomically
};

/// Writes whole tensors; `path` is replaced at once or not at all.
void write_tensors(const io::Path& path, const NamedTensors& tensors, io::SafetensorsMetadata metadata = {});

}  // namespace lockstep::checkpoint
