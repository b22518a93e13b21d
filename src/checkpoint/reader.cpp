#include "checkpoint/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "checkpoint/find.h"
#include "checkpoint/problems.h"
#include "io/checksum.h"
#include "tensor/bfloat16.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view use_another = "use another checkpoint of the run (lockstep inspect <run folder> lists them)";

std::string described(const LogicalTensor& tensor) { return fmt::format("{} {}", name_of(tensor.dtype), tensor.shape.text()); }

bool is_weight(DType type) { return type == DType::f32 || type == DType::bf16; }

// Whether `stored` can be read as `wanted`.
bool fits(const LogicalTensor& stored, const LogicalTensor& wanted) {
  const bool converts = is_weight(stored.dtype) && is_weight(wanted.dtype);
  return stored.shape == wanted.shape && (stored.dtype == wanted.dtype || converts);
}

// Elements of f32 as bf16, or of bf16 as f32.
void convert(std::byte* to, DType type, const std::byte* from, std::int64_t count) {
  if (type == DType::f32) {
    const BFloat16* const narrow = reinterpret_cast<const BFloat16*>(from);
    std::transform(narrow, narrow + count, reinterpret_cast<float*>(to), to_float);
  } else {
    const float* const wide = reinterpret_cast<const float*>(from);
    std::transform(wide, wide + count, reinterpret_cast<BFloat16*>(to), to_bfloat16);
  }
}

// A run of elements of one tensor: into `values`, or only through the checksum where that has no address.
struct Piece {
  std::size_t tensor;
  std::int64_t first;
  std::int64_t count;
  std::byte* to;
};

void add_pieces(std::vector<Piece>& pieces, std::size_t tensor, std::int64_t first, std::int64_t count, std::byte* to,
                DType dtype) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t most = 16 * piece_bytes / element;
  for (std::int64_t done = 0; done < count; done += most) {
    pieces.push_back({tensor, first + done, std::min(most, count - done), to == nullptr ? nullptr : to + done * element});
  }
}

// All elements of every tensor: its ranges, and what lies between them.
std::vector<Piece> cut(std::span<const HeldTensor> tensors) {
  std::vector<Piece> pieces;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const auto& [tensor, given] = tensors[index];
    std::vector<HeldRange> ranges = given;
    std::sort(ranges.begin(), ranges.end(), [](const HeldRange& a, const HeldRange& b) { return a.first < b.first; });
    std::int64_t end = 0;
    for (const HeldRange& range : ranges) {
      ensure(range.values.dtype == tensor.dtype && range.values.dense(), "a range is dense and of its tensor's type");
      ensure(range.first >= end && range.first + range.values.elements() <= tensor.shape.elements(),
             "ranges lie within their tensor and do not overlap");
      add_pieces(pieces, index, end, range.first - end, nullptr, tensor.dtype);
      add_pieces(pieces, index, range.first, range.values.elements(), range.values.data, tensor.dtype);
      end = range.first + range.values.elements();
    }
    add_pieces(pieces, index, end, tensor.shape.elements() - end, nullptr, tensor.dtype);
  }
  return pieces;
}

}  // namespace

Reader::Reader(io::Path folder) : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {
  files_.reserve(manifest_.files.size());  // places point into it
  for (const StoredFile& stored : manifest_.files) open_file(stored);
}

void Reader::open_file(const StoredFile& stored) {
  const io::Path path = folder_ / stored.name;
  const auto damaged = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {}", path.string(), what), std::string(use_another));
  };
  files_.push_back(io::File::open_to_read(path));
  const io::File& file = files_.back();
  const std::uint64_t size = file.size();
  if (size != stored.bytes)
    damaged(fmt::format("the file has {} bytes, its checkpoint was written with {}: truncated or replaced", size, stored.bytes));
  const std::vector<std::byte> start = io::read_safetensors_start(file);
  if (io::checksum(start, 1, 0) != stored.header_checksum) damaged("the header does not match its checksum: the file is damaged");
  const io::SafetensorsHeader header = io::parse_safetensors(start, size, path.string());
  std::unordered_map<std::string_view, const io::SafetensorsEntry*> entries;
  for (const io::SafetensorsEntry& entry : header.entries) entries.emplace(entry.name, &entry);
  for (const StoredTensor& tensor : manifest_.tensors) {
    if (tensor.file != stored.name) continue;
    const auto found = entries.find(tensor.tensor.name);
    const auto& [name, shape, dtype] = tensor.tensor;
    if (found == entries.end() || found->second->bytes != static_cast<std::uint64_t>(shape.elements()) * size_of(dtype)) {
      damaged(fmt::format("tensor \"{}\" is not what the manifest says: the files belong to different checkpoints", name));
    }
    places_.emplace(name, Place{&tensor, &file, found->second->offset});
  }
}

const Reader::Place* Reader::find_place(std::string_view name) const {
  auto found = places_.find(std::string(name));
  if (found == places_.end() && manifest_.master_is_model && name.ends_with(master_suffix)) {
    found = places_.find(std::string(name.substr(0, name.size() - master_suffix.size())));
  }
  return found == places_.end() ? nullptr : &found->second;
}

const StoredTensor* Reader::find(std::string_view name) const {
  const Place* place = find_place(name);
  return place == nullptr ? nullptr : place->stored;
}

void Reader::check_model(std::span<const LogicalTensor> wanted) const {
  const std::string remedy = "use the configuration that the checkpoint was trained with (lockstep inspect shows it)";
  std::vector<Problem> problems;
  std::unordered_map<std::string_view, const LogicalTensor*> names;
  for (const LogicalTensor& tensor : wanted) {
    names.emplace(tensor.name, &tensor);
    const StoredTensor* stored = find(tensor.name);
    if (stored == nullptr) {
      problems.push_back(
          {fmt::format("{} is of another model: it has no tensor \"{}\" {}", folder_.string(), tensor.name, described(tensor)),
           remedy});
    } else if (!fits(stored->tensor, tensor)) {
      problems.push_back({fmt::format("{} is of another model: its tensor \"{}\" is {}, this model's is {}", folder_.string(),
                                      tensor.name, described(stored->tensor), described(tensor)),
                          remedy});
    }
  }
  for (const StoredTensor& stored : manifest_.tensors) {
    if (stored.file == model_file && !names.contains(stored.tensor.name)) {
      problems.push_back({fmt::format("{} is of another model: it has a tensor \"{}\" {}, this model has none", folder_.string(),
                                      stored.tensor.name, described(stored.tensor)),
                          remedy});
    }
  }
  if (!problems.empty()) throw_first(std::move(problems));
}

void Reader::read_model(std::span<const HeldTensor> weights, cpu::Team& team) const {
  check_model(logical(weights));
  read(weights, team);
}

void Reader::read(std::span<const HeldTensor> tensors, cpu::Team& team) const {
  std::vector<Problem> problems;
  for (const HeldTensor& held : tensors) {
    const StoredTensor* stored = find(held.tensor.name);
    if (stored == nullptr) {
      problems.push_back({fmt::format("{} has no tensor \"{}\" {}", folder_.string(), held.tensor.name, described(held.tensor)),
                          "use a checkpoint of the same model and optimizer"});
    } else if (!fits(stored->tensor, held.tensor)) {
      problems.push_back({fmt::format("{}: tensor \"{}\" is {}, but {} is wanted", folder_.string(), held.tensor.name,
                                      described(stored->tensor), described(held.tensor)),
                          "use a checkpoint of the same model and optimizer"});
    }
  }
  if (!problems.empty()) throw_first(std::move(problems));
  for (const std::string& name : read_pieces(tensors, team)) {
    problems.push_back(
        {fmt::format("{}: tensor \"{}\" does not match its checksum: its bytes are damaged", folder_.string(), name),
         std::string(use_another)});
  }
  if (!problems.empty()) throw_first(std::move(problems));
}

std::uint64_t Reader::read_range(std::string_view name, const HeldRange& range) const {
  const Place* place = find_place(name);
  ensure(place != nullptr && range.values.dtype == place->stored->tensor.dtype, "the tensor is there and of the range's type");
  const std::size_t element = size_of(range.values.dtype);
  const auto first = static_cast<std::uint64_t>(range.first);
  const std::span<std::byte> bytes = elements<std::byte>(range.values);
  place->file->read_at(place->offset + first * element, bytes);
  return io::checksum(bytes, element, first);
}

std::vector<std::string> Reader::verify(cpu::Team& team) const {
  std::vector<HeldTensor> all;
  for (const StoredTensor& stored : manifest_.tensors) all.push_back({stored.tensor, {}});
  return read_pieces(all, team);
}

std::vector<std::string> Reader::read_pieces(std::span<const HeldTensor> tensors, cpu::Team& team) const {
  std::vector<const Place*> places;
  for (const HeldTensor& held : tensors) places.push_back(find_place(held.tensor.name));
  const std::vector<Piece> pieces = cut(tensors);
  std::vector<std::uint64_t> sums(tensors.size(), 0);
  std::vector<std::vector<std::byte>> scratch(static_cast<std::size_t>(team.size()));
  team.for_each(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int worker) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    const Place& place = *places[piece.tensor];
    const DType stored = place.stored->tensor.dtype, wanted = tensors[piece.tensor].tensor.dtype;
    const bool straight = piece.to != nullptr && stored == wanted;
    const std::size_t element = size_of(stored);
    std::vector<std::byte>& own = scratch[static_cast<std::size_t>(worker)];
    if (!straight) own.resize(piece_bytes);
    const std::int64_t most = piece_bytes / static_cast<std::int64_t>(element);
    std::uint64_t sum = 0;
    for (std::int64_t done = 0; done < piece.count; done += most) {
      const std::int64_t count = std::min(most, piece.count - done);
      std::byte* const to = piece.to == nullptr ? nullptr : piece.to + done * static_cast<std::int64_t>(size_of(wanted));
      const std::span<std::byte> bytes(straight ? to : own.data(), static_cast<std::size_t>(count) * element);
      const auto first = static_cast<std::uint64_t>(piece.first + done);
      place.file->read_at(place.offset + first * element, bytes);
      sum += io::checksum(bytes, element, first);
      if (to != nullptr && !straight) convert(to, wanted, own.data(), count);
    }
    std::atomic_ref(sums[piece.tensor]).fetch_add(sum, std::memory_order_relaxed);
  });
  std::vector<std::string> damaged;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    if (sums[index] != places[index]->stored->checksum) damaged.push_back(tensors[index].tensor.name);
  }
  return damaged;
}

}  // namespace lockstep::checkpoint
