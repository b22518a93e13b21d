#include "checkpoint/huggingface/stored_part.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

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
std::int64_t start_of_column(const StoredPart& stored, const Rectangle& part, std::int64_t column) {
  return (part.column + column) * stored.part.rows + part.row;
}

/// Where the file has a row.
std::int64_t row_in_file(std::int64_t row, std::int64_t head) {
  const std::int64_t within = row % head;
  return row - within + within % (head / 2) * 2 + within / (head / 2);
}

/// Calls move(where in the file, where in the range, elements) for each row, or part of one, of a range.
template <class Move>
void for_each_row(const StoredPart& stored, std::int64_t first, std::int64_t count, const Move& move) {
  for_each_rectangle(stored.columns(), first, count, [&](const Rectangle& part, std::size_t place) {
    for (std::int64_t row = 0; row < part.rows; ++row, place += static_cast<std::size_t>(part.columns))
      move(row_in_file(part.row + row, stored.paired) * stored.columns() + part.column, place,
           static_cast<std::size_t>(part.columns));
  });
}

/// Elements of the file from `first` on, and the rest of the blocks at either end, which is passed over.
void read_elements(const StoredPart& stored, std::int64_t first, std::span<float> to, Scratch& scratch) {
  const std::size_t block = block_of(stored.type), before = static_cast<std::size_t>(first) % block;
  const std::size_t count = (before + to.size() + block - 1) / block * block;
  const std::uint64_t offset = stored.offset + bytes_of(stored.type, static_cast<std::size_t>(first) - before);
  if (stored.type == ElementType::f32) return stored.file->read_at(offset, std::as_writable_bytes(to));
  scratch.bytes.resize(bytes_of(stored.type, count));
  stored.file->read_at(offset, scratch.bytes);
  if (count == to.size()) return widen(scratch.bytes, stored.type, to);
  scratch.blocks.resize(count);
  widen(scratch.bytes, stored.type, scratch.blocks);
  std::copy_n(scratch.blocks.begin() + static_cast<std::ptrdiff_t>(before), to.size(), to.begin());
}

bool write_elements(const StoredPart& stored, std::int64_t first, std::span<const float> from, Scratch& scratch) {
  scratch.bytes.resize(bytes_of(stored.type, from.size()));
  const bool finite = round_to(from, stored.type, scratch.bytes);
  stored.file->write_at(stored.offset + bytes_of(stored.type, static_cast<std::size_t>(first)), scratch.bytes);
  return finite;
}

}  // namespace

arch::huggingface::Part as_rows(arch::huggingface::Part part) {
  if (part.transposed) part.shape = Shape{part.shape[1], part.shape[0]};
  part.transposed = false;
  return part;
}

void StoredPart::read(std::int64_t first, std::span<float> to, Scratch& scratch) const {
  read_stored(first, to, scratch);
  if (added != 0) std::ranges::for_each(to, [this](float& value) { value -= added; });
}

bool StoredPart::write(std::int64_t first, std::span<const float> from, Scratch& scratch) const {
  if (added == 0) return write_stored(first, from, scratch);
  std::vector<float> more(from.begin(), from.end());
  std::ranges::for_each(more, [this](float& value) { value += added; });
  return write_stored(first, more, scratch);
}

void StoredPart::read_stored(std::int64_t first, std::span<float> to, Scratch& scratch) const {
  if (paired > 0) {
    return for_each_row(*this, first, std::ssize(to), [&](std::int64_t at, std::size_t place, std::size_t count) {
      read_elements(*this, at, to.subspan(place, count), scratch);
    });
  }
  if (!part.transposed) return read_elements(*this, first, to, scratch);
  for_each_rectangle(columns(), first, std::ssize(to), [&](const Rectangle& rectangle, std::size_t place) {
    scratch.values.resize(static_cast<std::size_t>(rectangle.rows));
    const auto stride = static_cast<std::size_t>(rectangle.columns);
    for (std::int64_t column = 0; column < rectangle.columns; ++column) {
      read_elements(*this, start_of_column(*this, rectangle, column), scratch.values, scratch);
      float* out = to.data() + place + static_cast<std::size_t>(column);
      for (std::size_t row = 0; row < scratch.values.size(); ++row) out[row * stride] = scratch.values[row];
    }
  });
}

bool StoredPart::write_stored(std::int64_t first, std::span<const float> from, Scratch& scratch) const {
  bool finite = true;
  if (paired > 0) {
    for_each_row(*this, first, std::ssize(from), [&](std::int64_t at, std::size_t place, std::size_t count) {
      finite = write_elements(*this, at, from.subspan(place, count), scratch) && finite;
    });
    return finite;
  }
  if (!part.transposed) return write_elements(*this, first, from, scratch);
  for_each_rectangle(columns(), first, std::ssize(from), [&](const Rectangle& rectangle, std::size_t place) {
    scratch.values.resize(static_cast<std::size_t>(rectangle.rows));
    const auto stride = static_cast<std::size_t>(rectangle.columns);
    for (std::int64_t column = 0; column < rectangle.columns; ++column) {
      const float* in = from.data() + place + static_cast<std::size_t>(column);
      for (std::size_t row = 0; row < scratch.values.size(); ++row) scratch.values[row] = in[row * stride];
      finite = write_elements(*this, start_of_column(*this, rectangle, column), scratch.values, scratch) && finite;
    }
  });
  return finite;
}

void PartWriter::write(std::size_t index, std::int64_t first, std::span<const float> values) {
  Scratch scratch;
  const std::int64_t end = first + std::ssize(values);
  for (const StoredPart& part : parts_[index]) {
    const std::int64_t part_first = part.part.first_row * part.columns();
    const std::int64_t from = std::max(first, part_first), until = std::min(end, part_first + part.elements());
    if (from >= until) continue;
    const auto own = values.subspan(static_cast<std::size_t>(from - first), static_cast<std::size_t>(until - from));
    if (!part.write(from - part_first, own, scratch)) too_large_ = static_cast<std::int64_t>(index);
  }
}

void PartWriter::demand_fit(std::string_view limit, const std::string& remedy) const {
  if (too_large_ < 0) return;
  throw UserError(
      fmt::format("tensor \"{}\" has weights {}", table_.parameters[static_cast<std::size_t>(too_large_)].name, limit), remedy);
}

}  // namespace lockstep::checkpoint::huggingface
