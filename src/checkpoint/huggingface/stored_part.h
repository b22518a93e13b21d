#pragma once

// Elements of a published tensor in a file, in our order: rows of output features, whichever way round the file has them.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/huggingface/tensors.h"
#include "checkpoint/huggingface/elements.h"
#include "checkpoint/tensor_file.h"
#include "io/file.h"

namespace lockstep::checkpoint::huggingface {

/// Memory that reading and writing use, kept from one call to the next.
struct Scratch {
  std::vector<std::byte> bytes;
  std::vector<float> values, blocks;
};

/// Elements that are moved at a time, in whole rows where a row is shorter.
inline constexpr std::int64_t elements_of_piece = 16 * piece_bytes / 4;
/// Elements of a row of a parameter, in our order.
inline std::int64_t columns_of(const Shape& shape) { return shape.rank() == 2 ? shape[1] : 1; }

/// The part as [out, in], even where the family has it the other way round.
arch::huggingface::Part as_rows(arch::huggingface::Part part);

struct StoredPart {
  arch::huggingface::Part part;
  io::File* file;  ///< not owned
  std::uint64_t offset;
  ElementType type;
  /// Above 0: so many heads, whose rows stand in pairs each, 0, D/2, 1, D/2 + 1, ..., as llama.cpp turns neighbours.
  std::int64_t paired = 0;
  float added = 0;  ///< the file's elements are so much larger

  std::int64_t columns() const { return part.shape.rank() < 2 ? 1 : part.transposed ? part.shape[0] : part.shape[1]; }
  std::int64_t elements() const { return part.shape.elements(); }

  /// Reads elements [first, first + to.size()), counted in rows of columns().
  void read(std::int64_t first, std::span<float> to, Scratch& scratch) const;
  /// Writes the same range. Returns whether every finite value is still finite in the file's type.
  [[nodiscard]] bool write(std::int64_t first, std::span<const float> from, Scratch& scratch) const;
  /// Reads the same range as the file has it, with what is `added`.
  void read_stored(std::int64_t first, std::span<float> to, Scratch& scratch) const;
  [[nodiscard]] bool write_stored(std::int64_t first, std::span<const float> from, Scratch& scratch) const;
};

/// Writes pieces of a model's parameters into the parts that they are published as.
class PartWriter {
 public:
  /// `parts`: the parts of each parameter of the table. The table outlives this.
  PartWriter(const arch::huggingface::TensorTable& table, std::vector<std::vector<StoredPart>> parts)
      : table_(table), parts_(std::move(parts)) {}
  /// Writes elements from `first` on, whole rows, of parameter `index`. Several threads may call it at once.
  void write(std::size_t index, std::int64_t first, std::span<const float> values);
  /// Throws UserError where the files' type could not hold a weight; `limit`: "above 65504, which fp16 cannot hold".
  void demand_fit(std::string_view limit, const std::string& remedy) const;

 private:
  const arch::huggingface::TensorTable& table_;
  std::vector<std::vector<StoredPart>> parts_;
  std::atomic<std::int64_t> too_large_ = -1;  ///< index of a parameter that does not fit
};

}  // namespace lockstep::checkpoint::huggingface
