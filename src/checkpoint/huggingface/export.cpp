#include "checkpoint/huggingface/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "arch/config_json.h"
#include "arch/huggingface/adapter.h"
#include "arch/huggingface/config_json.h"
#include "base/error.h"
#include "checkpoint/huggingface/adapter.h"
#include "checkpoint/huggingface/folder.h"
#include "checkpoint/huggingface/import.h"
#include "checkpoint/huggingface/stored_part.h"
#include "checkpoint/not_finite.h"
#include "checkpoint/problems.h"
#include "checkpoint/writer.h"
#include "io/new_folder.h"
#include "io/space.h"

namespace lockstep::checkpoint::huggingface {
namespace names = arch::huggingface;
namespace {

/// The safetensors files of an export: laid out first, then filled.
class Files {
 public:
  Files(const names::TensorTable& table, ElementType type, std::uint64_t most) : type_(type), most_(most) {
    for (const names::Parameter& parameter : table.parameters) {
      for (const names::Part& part : parameter.parts) place(part);
    }
    for (const names::Part& part : table.zeros) place(part);
  }
  std::uint64_t bytes() const { return bytes_; }
  std::size_t count() const { return shards_.size(); }

  /// Makes the files, which are zeros but for their headers, and the index where there are several.
  void create(const io::Path& folder) {
    files_.reserve(shards_.size());
    Json::Object map;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      const std::string name = shards_.size() == 1 ? std::string(weights_file)
                                                   : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size());
      const io::SafetensorsHeader header = io::lay_out_safetensors(shards_[i], {{"format", "pt"}});
      files_.push_back(io::File::create(folder / name));
      files_.back().resize(header.file_bytes);
      const std::string start = io::safetensors_header_bytes(header);
      files_.back().write_at(0, std::as_bytes(std::span(start)));
      for (const io::SafetensorsEntry& entry : header.entries) {
        places_.emplace(entry.name, Place{&files_.back(), entry.offset});
        map.emplace_back(entry.name, name);
      }
    }
    if (shards_.size() == 1) return;
    const Json index(Json::Object{{"metadata", Json::Object{{"total_size", bytes_}}}, {"weight_map", std::move(map)}});
    io::replace_file(folder / index_file, index.dump(2) + "\n");
  }
  StoredPart stored(const names::Part& part) const {
    const Place& place = places_.at(part.name);
    return {part, place.file, place.offset, type_};
  }
  void close() {
    for (io::File& file : files_) {
      file.sync();
      file.close();
    }
  }

 private:
  struct Place {
    io::File* file;
    std::uint64_t offset;
  };
  void place(const names::Part& part) {
    io::SafetensorsEntry entry;
    entry.name = part.name;
    entry.dtype = stored_name(type_);
    for (int dim = 0; dim < part.shape.rank(); ++dim) entry.shape.push_back(part.shape[dim]);
    const std::uint64_t size = bytes_of(type_, static_cast<std::size_t>(part.shape.elements()));
    if (shards_.empty() || in_last_ + size > most_) {
      shards_.emplace_back();
      in_last_ = 0;
    }
    shards_.back().push_back(std::move(entry));
    in_last_ += size;
    bytes_ += size;
  }
  ElementType type_;
  std::uint64_t most_, in_last_ = 0, bytes_ = 0;
  std::vector<std::vector<io::SafetensorsEntry>> shards_;
  std::vector<io::File> files_;
  std::unordered_map<std::string, Place> places_;
};

ElementType type_of(const StoredTensor& stored) {
  ensure(stored.tensor.dtype == DType::f32 || stored.tensor.dtype == DType::bf16, "weights are fp32 or bf16");
  return stored.tensor.dtype == DType::f32 ? ElementType::f32 : ElementType::bf16;
}

arch::ModelConfig model_of(const Reader& reader) {
  return arch::model_from_json(reader.manifest().model, reader.folder().string());
}

/// The checkpoint has the model's tensors, in whichever type.
void check_tensors(const Reader& reader, const names::TensorTable& table) {
  std::vector<LogicalTensor> wanted;
  for (const names::Parameter& parameter : table.parameters) {
    const StoredTensor* stored = reader.find(parameter.name);
    wanted.push_back({parameter.name, parameter.shape, stored == nullptr ? DType::f32 : stored->tensor.dtype});
  }
  const arch::ModelConfig config = model_of(reader);
  for (const names::AdapterTensor& tensor : names::adapter_tensors(config, names::family_of(config))) {
    const StoredTensor* stored = reader.find(tensor.name);
    wanted.push_back({tensor.name, tensor.shape, stored == nullptr ? DType::f32 : stored->tensor.dtype});
  }
  reader.check_model(wanted);
}

/// What a thread needs to read pieces.
struct Mover {
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

/// Elements [first, first + count) of a parameter, read and widened; their share of its checksum.
std::uint64_t read_piece(const Reader& reader, const StoredTensor& stored, std::int64_t first, std::int64_t count, Mover& mover) {
  mover.values.resize(static_cast<std::size_t>(count));
  mover.bytes.resize(static_cast<std::size_t>(count) * size_of(stored.tensor.dtype));
  Tensor raw;
  raw.data = mover.bytes.data();
  raw.shape = Shape{count};
  raw.dtype = stored.tensor.dtype;
  const std::uint64_t checksum = reader.read_range(stored.tensor.name, {first, raw});
  widen(mover.bytes, type_of(stored), mover.values);
  return checksum;
}

const char* torch_name(ElementType type) {
  return type == ElementType::f32 ? "float32" : type == ElementType::f16 ? "float16" : "bfloat16";
}

}  // namespace

ElementType stored_type(const Reader& reader, const names::TensorTable& table) {
  check_tensors(reader, table);
  return type_of(*reader.find(table.parameters.front().name));
}

void for_each_piece(const Reader& reader, const names::TensorTable& table, Team& team, const Weights::Take& take) {
  std::vector<Mover> movers(static_cast<std::size_t>(team.size()));
  const AdapterMerge adapters(reader, model_of(reader));
  for (std::size_t index = 0; index < table.parameters.size(); ++index) {
    const names::Parameter& parameter = table.parameters[index];
    const StoredTensor& stored = *reader.find(parameter.name);
    const std::int64_t all = parameter.shape.elements(), columns = columns_of(parameter.shape);
    const std::int64_t size = std::max<std::int64_t>(1, elements_of_piece / columns) * columns;
    std::atomic<std::uint64_t> sum = 0;
    NotFinite not_finite;
    team.for_each((all + size - 1) / size, [&](std::int64_t i, int worker) {
      Mover& mover = movers[static_cast<std::size_t>(worker)];
      sum += read_piece(reader, stored, i * size, std::min(size, all - i * size), mover);
      adapters.add(parameter.name, i * size, mover.values);
      not_finite.look(parameter.name, std::as_bytes(std::span(mover.values)), DType::f32);
      take(index, i * size, mover.values);
    });
    if (sum != stored.checksum) {
      throw UserError(fmt::format("{}: tensor \"{}\" does not match its checksum: its bytes are damaged",
                                  reader.folder().string(), parameter.name),
                      use_another(reader.folder()));
    }
    not_finite.refuse(reader.folder().string(), use_another(reader.folder()));
  }
}

// One without learned positions reads on.
void keep_positions(Json& config, const Json& facts) {
  const Json *const windows = config.find(positions_key), *const positions = facts.find(positions_key);
  if (windows != nullptr && positions != nullptr && positions->is_int() && positions->integer() > windows->integer())
    config.set(positions_key, *positions);
}

ExportReport export_model(const Reader& reader, const io::Path& folder, const ExportOptions& options, Team& team) {
  demand_new(folder);
  const arch::ModelConfig config = model_of(reader);
  const names::Family family = names::family_of(config);
  const names::TensorTable table = names::tensor_table(config, family);
  const ElementType type = options.type.value_or(stored_type(reader, table));
  Files files(table, type, options.shard_bytes);
  io::make_folders(io::folder_of(folder));
  io::NewFolder target(folder);
  io::demand_space(target.path(), files.bytes(), "the model");
  files.create(target.path());
  std::vector<std::vector<StoredPart>> parts;
  for (const names::Parameter& parameter : table.parameters) {
    for (std::vector<StoredPart>& of = parts.emplace_back(); const names::Part& part : parameter.parts)
      of.push_back(files.stored(part));
  }
  PartWriter writer(table, std::move(parts));
  for_each_piece(reader, table, team,
                 [&](std::size_t index, std::int64_t first, std::span<float> values) { writer.write(index, first, values); });
  writer.demand_fit("above 65504, which fp16 cannot hold", "--dtype bf16 or --dtype fp32");
  files.close();
  Json json = names::to_json(config, family);
  json.set("torch_dtype", torch_name(type));
  for (const auto& [key, value] : options.generation.object()) {
    if (key != positions_key) json.set(key, value);
  }
  keep_positions(json, options.generation);
  io::replace_file(target.path() / config_file, json.dump(2) + "\n");
  for (const auto& [name, text] : options.texts) {
    io::make_folders(io::folder_of(target.path() / name));
    io::replace_file(target.path() / name, text);
  }
  target.commit();
  return {files.bytes(), files.count(), type};
}

}  // namespace lockstep::checkpoint::huggingface
