#include "checkpoint/tensor_file.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "io/checksum.h"

namespace lockstep::checkpoint {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) { return {tensor.data, tensor.bytes()}; }

io::SafetensorsEntry entry_of(const LogicalTensor& tensor) {
  io::SafetensorsEntry entry;
  entry.name = tensor.name;
  entry.dtype = name_of(tensor.dtype);
  for (int dim = 0; dim < tensor.shape.rank(); ++dim) entry.shape.push_back(tensor.shape[dim]);
  return entry;
}

}  // namespace

HeldTensor hold_whole(std::string name, const Tensor& tensor) {
  return {{std::move(name), tensor.shape, tensor.dtype}, {{0, tensor.flat(0, tensor.elements())}}};
}

std::vector<LogicalTensor> logical(std::span<const HeldTensor> tensors) {
  std::vector<LogicalTensor> table;
  for (const HeldTensor& held : tensors) table.push_back(held.tensor);
  return table;
}

TensorFileWriter::TensorFileWriter(io::File& file, std::span<const LogicalTensor> tensors, io::SafetensorsMetadata metadata)
    : file_(file), tensors_(tensors.begin(), tensors.end()), checksums_(tensors.size(), 0) {
  std::vector<io::SafetensorsEntry> entries;
  for (const LogicalTensor& tensor : tensors) entries.push_back(entry_of(tensor));
  header_ = io::lay_out_safetensors(entries, std::move(metadata));
  std::unordered_map<std::string_view, std::uint64_t> places;
  for (const io::SafetensorsEntry& entry : header_.entries) places.emplace(entry.name, entry.offset);
  for (const LogicalTensor& tensor : tensors) offsets_.push_back(places.at(tensor.name));
  const std::string bytes = io::safetensors_header_bytes(header_);
  header_checksum_ = io::checksum(std::as_bytes(std::span(bytes)), 1, 0);
  file_.resize(header_.file_bytes);
  file_.write_at(0, std::as_bytes(std::span(bytes)));
}

void TensorFileWriter::write(std::size_t index, const HeldRange& range) {
  const LogicalTensor& tensor = tensors_.at(index);
  const Tensor& values = range.values;
  ensure(values.dtype == tensor.dtype && values.dense(), "a range is dense and of its tensor's type");
  ensure(range.first >= 0 && range.first + values.elements() <= tensor.shape.elements(), "a range lies within its tensor");
  const std::size_t element = size_of(tensor.dtype);
  const std::int64_t count = piece_bytes / static_cast<std::int64_t>(element);
  std::uint64_t sum = 0;
  for (std::int64_t done = 0; done < values.elements(); done += count) {
    const auto piece = bytes_of(values.flat(done, std::min(count, values.elements() - done)));
    const auto first = static_cast<std::uint64_t>(range.first + done);
    sum += io::checksum(piece, element, first);
    file_.write_at(offsets_[index] + first * element, piece);
  }
  std::atomic_ref(checksums_[index]).fetch_add(sum, std::memory_order_relaxed);
}

void TensorFileWriter::write(std::span<const HeldTensor> tensors, cpu::Team& team) {
  ensure(tensors.size() == tensors_.size(), "the tensors are those of the table");
  struct Piece {
    std::size_t index;
    HeldRange range;
  };
  std::vector<Piece> pieces;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    ensure(tensors[index].tensor.name == tensors_[index].name, "the tensors are those of the table");
    for (const HeldRange& range : tensors[index].ranges) {
      const std::int64_t count = 16 * piece_bytes / static_cast<std::int64_t>(size_of(range.values.dtype));
      for (std::int64_t done = 0; done < range.values.elements(); done += count) {
        pieces.push_back({index, {range.first + done, range.values.flat(done, std::min(count, range.values.elements() - done))}});
      }
    }
  }
  team.for_each(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    write(piece.index, piece.range);
  });
}

void write_tensors(const io::Path& path, const NamedTensors& tensors, io::SafetensorsMetadata metadata) {
  std::vector<HeldTensor> held;
  for (const NamedTensor& named : tensors) held.push_back(hold_whole(named.name, named.tensor));
  io::Replacement replacement(path);
  TensorFileWriter writer(replacement.file(), logical(held), std::move(metadata));
  for (std::size_t index = 0; index < held.size(); ++index) writer.write(index, held[index].ranges.front());
  replacement.commit();
}

}  // namespace lockstep::checkpoint
