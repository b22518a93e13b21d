#include "checkpoint/tensor_file.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "io/checksum.h"

namespace lockstep::checkpoint {
namespace {

io::SafetensorsEntry entry_of(const LogicalTensor& tensor) {
  io::SafetensorsEntry entry;
  entry.name = tensor.name;
  entry.dtype = name_of(tensor.dtype);
  for (int dim = 0; dim < tensor.shape.rank(); ++dim) entry.shape.push_back(tensor.shape[dim]);
  return entry;
}

}  // namespace

void check_range(const HeldRange& range, const LogicalTensor& tensor) {
  const Tensor& values = range.values;
  ensure(values.dtype == tensor.dtype && values.dense(), "a range is dense and of its tensor's type");
  ensure(range.stride == 0 || range.stride >= values.columns(), "the rows of a range do not overlap");
  const std::int64_t length = range.stride == 0 ? values.elements() : values.columns();
  const std::int64_t last_row = range.stride == 0 || values.rows() == 0 ? 0 : (values.rows() - 1) * range.stride;
  ensure(range.first >= 0 && range.first + last_row + length <= tensor.shape.elements(), "a range lies within its tensor");
}

void for_each_run(const HeldRange& range, const std::function<void(std::int64_t first, const Tensor& values)>& run) {
  const std::int64_t all = range.values.elements(), most = piece_bytes / static_cast<std::int64_t>(size_of(range.values.dtype));
  const std::int64_t length = range.stride == 0 ? all : range.values.columns();
  for (std::int64_t row = 0; row * length < all; ++row) {
    for (std::int64_t done = 0; done < length; done += most) {
      run(range.first + row * range.stride + done, range.values.flat(row * length + done, std::min(most, length - done)));
    }
  }
}

std::vector<HeldRange> parts_of(const HeldRange& range) {
  std::vector<HeldRange> parts;
  if (range.values.elements() == 0) return parts;
  const std::int64_t most = part_bytes / static_cast<std::int64_t>(size_of(range.values.dtype));
  if (range.stride == 0) {
    for (std::int64_t done = 0; done < range.values.elements(); done += most) {
      const Tensor part = range.values.flat(done, std::min(most, range.values.elements() - done));
      parts.push_back({range.first + done, part, 0, range.counts});
    }
    return parts;
  }
  const std::int64_t all = range.values.rows(), rows = std::max<std::int64_t>(1, most / range.values.columns());
  for (std::int64_t row = 0; row < all; row += rows) {
    const Tensor part = range.values.slice_rows(row, std::min(rows, all - row));
    parts.push_back({range.first + row * range.stride, part, range.stride, range.counts});
  }
  return parts;
}

HeldTensor hold_whole(std::string name, const Tensor& tensor) {
  return {{std::move(name), tensor.shape, tensor.dtype}, {{0, tensor.flat(0, tensor.elements())}}};
}

std::vector<LogicalTensor> logical(std::span<const HeldTensor> tensors) {
  std::vector<LogicalTensor> table;
  for (const HeldTensor& held : tensors) table.push_back(held.tensor);
  return table;
}

void Tally::add(std::uint64_t checksum_of, std::int64_t count) {
  std::atomic_ref(checksum).fetch_add(checksum_of, std::memory_order_relaxed);
  std::atomic_ref(elements).fetch_add(count, std::memory_order_relaxed);
}

void add_over(comm::Communicator& ranks, std::span<Tally> tallies) {
  if (ranks.size() == 1 || tallies.empty()) return;
  // Sums of signed integers must not overflow: the halves of a checksum travel apart.
  constexpr std::uint64_t low = 0xFFFFFFFF;
  std::vector<std::int64_t> numbers;
  numbers.reserve(3 * tallies.size());
  for (const Tally& tally : tallies) {
    numbers.push_back(static_cast<std::int64_t>(tally.checksum & low));
    numbers.push_back(static_cast<std::int64_t>(tally.checksum >> 32));
    numbers.push_back(tally.elements);
  }
  ranks.host().all_reduce(view(std::span(numbers), Shape{std::ssize(numbers)}), comm::Reduction::sum).wait();
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    tallies[i].checksum = static_cast<std::uint64_t>(numbers[3 * i]) + (static_cast<std::uint64_t>(numbers[3 * i + 1]) << 32);
    tallies[i].elements = numbers[3 * i + 2];
  }
}

TensorFileWriter::TensorFileWriter(io::File& file, std::span<const LogicalTensor> tensors, io::SafetensorsMetadata metadata)
    : file_(file), tensors_(tensors.begin(), tensors.end()), tallies_(tensors.size()) {
  std::vector<io::SafetensorsEntry> entries;
  for (const LogicalTensor& tensor : tensors) entries.push_back(entry_of(tensor));
  header_ = io::lay_out_safetensors(entries, std::move(metadata));
  std::unordered_map<std::string_view, std::uint64_t> places;
  for (const io::SafetensorsEntry& entry : header_.entries) places.emplace(entry.name, entry.offset);
  for (const LogicalTensor& tensor : tensors) offsets_.push_back(places.at(tensor.name));
  header_bytes_ = io::safetensors_header_bytes(header_);
}

void TensorFileWriter::lay_out() {
  file_.resize(header_.file_bytes);
  file_.write_at(0, std::as_bytes(std::span(header_bytes_)));
}

std::uint64_t TensorFileWriter::header_checksum() const { return io::checksum(std::as_bytes(std::span(header_bytes_)), 1, 0); }

std::uint64_t TensorFileWriter::write(std::size_t index, const HeldRange& range) {
  const LogicalTensor& tensor = tensors_.at(index);
  check_range(range, tensor);
  if (!range.counts) return 0;
  const std::size_t element = size_of(tensor.dtype);
  std::uint64_t sum = 0;
  for_each_run(range, [&](std::int64_t first, const Tensor& values) {
    const std::span<const std::byte> bytes(values.data, values.bytes());
    const auto place = static_cast<std::uint64_t>(first);
    sum += io::checksum(bytes, element, place);
    file_.write_at(offsets_[index] + place * element, bytes);
  });
  tallies_[index].add(sum, range.values.elements());
  return sum;
}

std::uint64_t TensorFileWriter::checksum_in_file(std::size_t index, const HeldRange& range) const {
  const std::size_t element = size_of(tensors_.at(index).dtype);
  std::vector<std::byte> piece(static_cast<std::size_t>(piece_bytes));
  std::uint64_t sum = 0;
  for_each_run(range, [&](std::int64_t first, const Tensor& values) {
    const auto place = static_cast<std::uint64_t>(first);
    const std::span<std::byte> bytes = std::span(piece).first(values.bytes());
    file_.read_at(offsets_[index] + place * element, bytes);
    sum += io::checksum(bytes, element, place);
  });
  return sum;
}

void write_tensors(const io::Path& path, const NamedTensors& tensors, io::SafetensorsMetadata metadata) {
  std::vector<HeldTensor> held;
  for (const NamedTensor& named : tensors) held.push_back(hold_whole(named.name, named.tensor));
  io::Replacement replacement(path);
  TensorFileWriter writer(replacement.file(), logical(held), std::move(metadata));
  writer.lay_out();
  for (std::size_t index = 0; index < held.size(); ++index) writer.write(index, held[index].ranges.front());
  replacement.commit();
}

}  // namespace lockstep::checkpoint
