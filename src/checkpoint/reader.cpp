#include "checkpoint/reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/find.h"
#include "checkpoint/problems.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "io/checksum.h"
#include "tensor/bfloat16.h"

namespace lockstep::checkpoint {
namespace {

std::string described(const LogicalTensor& tensor) { return fmt::format("{} {}", name_of(tensor.dtype), tensor.shape.text()); }

bool is_weight(DType type) { return type == DType::f32 || type == DType::bf16; }

// Whether `stored` can be read as `wanted`.
bool fits(const LogicalTensor& stored, const LogicalTensor& wanted) {
  const bool converts = is_weight(stored.dtype) && is_weight(wanted.dtype);
  return stored.shape == wanted.shape && (stored.dtype == wanted.dtype || converts);
}

// Learned positions (arch/parameters names them so) of which `wanted` has the first rows: nanoGPT's crop_block_size.
bool is_cropped(const LogicalTensor& stored, const LogicalTensor& wanted) {
  if (!wanted.name.starts_with("transformer.wpe.weight") || !is_weight(stored.dtype) || !is_weight(wanted.dtype)) return false;
  const Shape &whole = stored.shape, &part = wanted.shape;
  return whole.rank() == 2 && part.rank() == 2 && part[0] < whole[0] && part[1] == whole[1];
}

// Elements of f32 as bf16, or of bf16 as f32.
void convert(std::byte* to, DType type, const std::byte* from, std::int64_t count) {
  if (type == DType::f32) {
    const BFloat16* const narrow = reinterpret_cast<const BFloat16*>(from);
    std::transform(narrow, narrow + count, reinterpret_cast<float*>(to), to_float);
  } else {
    const float* const wide = reinterpret_cast<const float*>(from);
    std::transform(wide, wide + count, reinterpret_cast<BFloat16*>(to), [](float x) { return to_halves(x).high; });
  }
}

}  // namespace

Reader::Reader(io::Path folder) : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {
  if (std::string fault = fault_of_files(folder_, manifest_); !fault.empty())
    throw UserError(std::move(fault), use_another(folder_));
  files_.reserve(manifest_.files.size());  // places point into it
  for (const StoredFile& stored : manifest_.files) open_file(stored);
}

void Reader::open_file(const StoredFile& stored) {
  const io::Path path = folder_ / stored.name;
  const auto damaged = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {}", path.string(), what), use_another(folder_));
  };
  files_.push_back(io::File::open_to_read(path));
  const io::File& file = files_.back();
  const std::uint64_t size = file.size();
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

void Reader::check_model(std::span<const LogicalTensor> wanted) const { check_tensors(wanted, false); }

void Reader::check_tensors(std::span<const LogicalTensor> wanted, bool crops) const {
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
    } else if (!fits(stored->tensor, tensor) && !(crops && is_cropped(stored->tensor, tensor))) {
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

std::uint64_t Reader::Place::read(std::int64_t first, std::span<std::byte> bytes) const {
  const std::size_t element = size_of(stored->tensor.dtype);
  const auto place = static_cast<std::uint64_t>(first);
  file->read_at(offset + place * element, bytes);
  return io::checksum(bytes, element, place);
}

std::uint64_t Reader::read_range(std::string_view name, const HeldRange& range) const {
  const Place* place = find_place(name);
  ensure(place != nullptr, "the tensor is there");
  check_range(range, place->stored->tensor);
  return place->read(range.first, elements<std::byte>(range.values));
}

class Reader::Ranges final : public RangeReader {
 public:
  Ranges(const Reader& reader, std::span<const LogicalTensor> table, bool weights)
      : reader_(reader), table_(table.begin(), table.end()), weights_(weights), tallies_(table.size()) {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      places_.push_back(reader.find_place(table_[i].name));
      indices_.emplace(table_[i].name, i);
    }
  }

  void fill(std::span<const HeldTensor> tensors, Team& team) override {
    attempts_.run([&] { fill_parts(tensors, team); });
  }

  void finish(comm::Communicator& ranks) override {
    attempts_.run([&] {
      if (ranks.rank() == 0) read_rests();
    });
    attempts_.meet(ranks);
    add_over(ranks, tallies_);
    std::vector<Problem> problems;
    for (std::size_t i = 0; i < table_.size(); ++i) {
      ensure(tallies_[i].elements == places_[i]->stored->tensor.shape.elements(),
             fmt::format("the ranks read every element of {} once", table_[i].name));
      if (tallies_[i].checksum == places_[i]->stored->checksum) continue;
      problems.push_back({fmt::format("{}: tensor \"{}\" does not match its checksum: its bytes are damaged",
                                      reader_.folder().string(), table_[i].name),
                          use_another(reader_.folder())});
    }
    if (!problems.empty()) throw_first(std::move(problems));
    if (weights_) not_finite_.refuse(ranks, reader_.folder().string(), use_another(reader_.folder()));
  }

 private:
  struct Part {
    std::size_t tensor;
    HeldRange range;
  };

  // What no rank has of a cropped tensor, whose checksum is that of all.
  void read_rests() {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < table_.size(); ++i) {
      const LogicalTensor& stored = places_[i]->stored->tensor;
      const std::int64_t size = static_cast<std::int64_t>(size_of(stored.dtype)), all = stored.shape.elements();
      for (std::int64_t at = table_[i].shape.elements(); at < all;) {
        const std::int64_t count = std::min(all - at, piece_bytes / size);
        bytes.resize(static_cast<std::size_t>(count * size));
        tallies_[i].add(places_[i]->read(at, bytes), count);
        at += count;
      }
    }
  }

  void fill_parts(std::span<const HeldTensor> tensors, Team& team) {
    std::vector<Part> parts;
    for (const HeldTensor& held : tensors) {
      const auto found = indices_.find(held.tensor.name);
      ensure(found != indices_.end(), "what is filled stands in the table");
      for (const HeldRange& range : held.ranges) {
        check_range(range, table_[found->second]);
        for (const HeldRange& part : parts_of(range)) parts.push_back({found->second, part});
      }
    }
    std::vector<std::vector<std::byte>> scratch(static_cast<std::size_t>(team.size()));
    team.for_each(std::ssize(parts), [&](std::int64_t i, int worker) {
      fill_part(parts[static_cast<std::size_t>(i)], scratch[static_cast<std::size_t>(worker)]);
    });
  }

  void fill_part(const Part& part, std::vector<std::byte>& scratch) {
    const Place& place = *places_[part.tensor];
    const DType stored = place.stored->tensor.dtype, wanted = table_[part.tensor].dtype;
    std::uint64_t sum = 0;
    for_each_run(part.range, [&](std::int64_t first, const Tensor& values) {
      if (stored == wanted) {
        sum += place.read(first, elements<std::byte>(values));
      } else {
        scratch.resize(static_cast<std::size_t>(values.elements()) * size_of(stored));
        sum += place.read(first, scratch);
        convert(values.data, wanted, scratch.data(), values.elements());
      }
      if (weights_) not_finite_.look(table_[part.tensor].name, elements<std::byte>(values), wanted);
    });
    if (part.range.counts) tallies_[part.tensor].add(sum, part.range.values.elements());
  }

  const Reader& reader_;
  std::vector<LogicalTensor> table_;
  bool weights_;  ///< a model's, which have to be finite
  NotFinite not_finite_;
  std::vector<const Place*> places_;  ///< by the table's index, as are the tallies
  std::vector<Tally> tallies_;
  std::unordered_map<std::string_view, std::size_t> indices_;
  comm::Attempts attempts_;
};

std::unique_ptr<RangeReader> Reader::read_model(std::span<const LogicalTensor> weights) const {
  check_tensors(weights, true);
  return std::make_unique<Ranges>(*this, weights, true);
}

std::unique_ptr<RangeReader> Reader::read(std::span<const LogicalTensor> tensors) const {
  std::vector<Problem> problems;
  for (const LogicalTensor& tensor : tensors) {
    const StoredTensor* stored = find(tensor.name);
    if (stored == nullptr) {
      problems.push_back({fmt::format("{} has no tensor \"{}\" {}", folder_.string(), tensor.name, described(tensor)),
                          "use a checkpoint of the same model and optimizer"});
    } else if (!fits(stored->tensor, tensor)) {
      problems.push_back({fmt::format("{}: tensor \"{}\" is {}, but {} is wanted", folder_.string(), tensor.name,
                                      described(stored->tensor), described(tensor)),
                          "use a checkpoint of the same model and optimizer"});
    }
  }
  if (!problems.empty()) throw_first(std::move(problems));
  return std::make_unique<Ranges>(*this, tensors, false);
}

std::vector<std::string> Reader::verify(Team& team, NotFinite* not_finite) const {
  struct Part {
    std::size_t tensor;
    std::int64_t first, count;
  };
  std::vector<Part> parts;
  for (std::size_t index = 0; index < manifest_.tensors.size(); ++index) {
    const LogicalTensor& tensor = manifest_.tensors[index].tensor;
    const std::int64_t most = piece_bytes / static_cast<std::int64_t>(size_of(tensor.dtype));
    for (std::int64_t done = 0; done < tensor.shape.elements(); done += most)
      parts.push_back({index, done, std::min(most, tensor.shape.elements() - done)});
  }
  std::vector<Tally> tallies(manifest_.tensors.size());
  std::vector<std::vector<std::byte>> scratch(static_cast<std::size_t>(team.size()));
  team.for_each(std::ssize(parts), [&](std::int64_t i, int worker) {
    const Part& part = parts[static_cast<std::size_t>(i)];
    const Place& place = *find_place(manifest_.tensors[part.tensor].tensor.name);
    std::vector<std::byte>& own = scratch[static_cast<std::size_t>(worker)];
    own.resize(static_cast<std::size_t>(part.count) * size_of(place.stored->tensor.dtype));
    tallies[part.tensor].add(place.read(part.first, own), part.count);
    const LogicalTensor& tensor = place.stored->tensor;
    if (not_finite != nullptr && is_weight(tensor.dtype)) not_finite->look(tensor.name, own, tensor.dtype);
  });
  std::vector<std::string> damaged;
  for (std::size_t index = 0; index < tallies.size(); ++index) {
    if (tallies[index].checksum != manifest_.tensors[index].checksum) damaged.push_back(manifest_.tensors[index].tensor.name);
  }
  return damaged;
}

std::unique_ptr<Reader> open_together(comm::Communicator& ranks, const io::Path& folder) {
  std::unique_ptr<Reader> reader;
  comm::together(ranks, [&] { reader = std::make_unique<Reader>(folder); });
  const std::string mine = manifest_text(reader->manifest()), first = comm::lead_text(ranks, mine);
  comm::together(ranks, [&] {
    if (mine == first) return;
    throw UserError(fmt::format("{} has another checkpoint than the one that rank 0 finds there", folder.string()),
                    "put the run folder (log.dir) on a file system that all hosts share");
  });
  return reader;
}

}  // namespace lockstep::checkpoint
