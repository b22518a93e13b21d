#include "checkpoint/huggingface/stored_part.h"

#include <algorithm>

namespace lockstep::checkpoint::huggingface {
namespace {

struct Rectangle {
  std::int64_t row, rows, column, columns;
};

/// A range of elements as whole rows and, before and after them, parts of one. Calls work(rectangle, where it is in the range).
template <class Work>
void for_each_rectangle(std::int64_t columns, std::int64_t first, std::int64_t count, const Work& work) {
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t row = at / columns, column = at % columns, left = first + count - at;
    const bool whole = column == 0 && left >= columns;
    const Rectangle part =
        whole ? Rectangle{row, left / columns, 0, columns} : Rectangle{row, 1, column, std::min(left, columns - column)};
    work(part, static_cast<std::size_t>(at - first));
    at += part.rows * part.columns;
  }
}

/// Where the file has a rectangle's column: its elements are neighbours there.
std::uint64_t offset_of_column(const StoredPart& stored, const Rectangle& part, std::int64_t column) {
  const std::int64_t element = (part.column + column) * stored.part.rows + part.row;
  return stored.offset + static_cast<std::uint64_t>(element) * size_of(stored.type);
}

void read_elements(const StoredPart& stored, std::uint64_t offset, std::span<float> to, Scratch& scratch) {
  if (stored.type == ElementType::f32) return stored.file->read_at(offset, std::as_writable_bytes(to));
  scratch.bytes.resize(to.size() * size_of(stored.type));
  stored.file->read_at(offset, scratch.bytes);
  widen(scratch.bytes, stored.type, to);
}

bool write_elements(const StoredPart& stored, std::uint64_t offset, std::span<const float> from, Scratch& scratch) {
  scratch.bytes.resize(from.size() * size_of(stored.type));
  const bool finite = round_to(from, stored.type, scratch.bytes);
  stored.file->write_at(offset, scratch.bytes);
  return finite;
}

}  // namespace

void StoredPart::read(std::int64_t first, std::span<float> to, Scratch& scratch) const {
  if (!part.transposed) return read_elements(*this, offset + static_cast<std::uint64_t>(first) * size_of(type), to, scratch);
  for_each_rectangle(columns(), first, std::ssize(to), [&](const Rectangle& rectangle, std::size_t place) {
    scratch.values.resize(static_cast<std::size_t>(rectangle.rows));
    const auto stride = static_cast<std::size_t>(rectangle.columns);
    for (std::int64_t column = 0; column < rectangle.columns; ++column) {
      read_elements(*this, offset_of_column(*this, rectangle, column), scratch.values, scratch);
      float* out = to.data() + place + static_cast<std::size_t>(column);
      for (std::size_t row = 0; row < scratch.values.size(); ++row) out[row * stride] = scratch.values[row];
    }
  });
}

bool StoredPart::write(std::int64_t first, std::span<const float> from, Scratch& scratch) const {
  if (!part.transposed) return write_elements(*this, offset + static_cast<std::uint64_t>(first) * size_of(type), from, scratch);
  bool finite = true;
  for_each_rectangle(columns(), first, std::ssize(from), [&](const Rectangle& rectangle, std::size_t place) {
    scratch.values.resize(static_cast<std::size_t>(rectangle.rows));
    const auto stride = static_cast<std::size_t>(rectangle.columns);
    for (std::int64_t column = 0; column < rectangle.columns; ++column) {
      const float* in = from.data() + place + static_cast<std::size_t>(column);
      for (std::size_t row = 0; row < scratch.values.size(); ++row) scratch.values[row] = in[row * stride];
      finite = write_elements(*this, offset_of_column(*this, rectangle, column), scratch.values, scratch) && finite;
    }
  });
  return finite;
}

}  // namespace lockstep::checkpoint::huggingface
