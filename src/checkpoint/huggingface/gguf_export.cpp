#include "checkpoint/huggingface/gguf_export.h"

#include <fmt/format.h>

#include <functional>

#include "arch/config_json.h"
#include "arch/gguf.h"
#include "arch/huggingface/config_json.h"
#include "base/error.h"
#include "checkpoint/huggingface/import.h"
#include "checkpoint/huggingface/stored_part.h"
#include "io/gguf.h"
#include "io/space.h"

namespace lockstep::checkpoint::huggingface {
namespace names = arch::huggingface;
namespace {

/// By ElementType. llama.h's enum llama_ftype, and the remedy where a weight is too large.
struct FileType {
  std::int64_t code;
  const char* limit;
};
constexpr FileType file_types[] = {{0, ""},
                                   {1, "above 65504, which f16 cannot hold"},
                                   {32, "that bf16 cannot hold"},
                                   {7, "that q8_0, or f16 where rows are no multiple of 32, cannot hold"}};
constexpr std::int64_t quantization_version = 2;  // GGML_QNT_VERSION of ggml.h

using EachPiece = std::function<void(const names::TensorTable& table, const Weights::Take& take)>;

class GgufFile {
 public:
  GgufFile(const arch::ModelConfig& config, ElementType type, const GgufOptions& options)
      : config_(config),
        family_(names::family_of(config)),
        json_(names::to_json(config, family_)),
        architecture_(arch::gguf::architecture_of_config(json_, "the model")),
        table_(names::tensor_table(config, family_)),
        factors_(arch::gguf::rope_factors(config)),
        type_(type) {
    keep_positions(json_, options.facts);
    content_.pairs = arch::gguf::pairs_of(config, json_);
    content_.pairs.set("general.file_type", file_types[static_cast<std::size_t>(type)].code);
    if (type == ElementType::q8_0) content_.pairs.set("general.quantization_version", quantization_version);
    for (const auto& [key, value] : options.pairs.object()) content_.pairs.set(key, value);
    for (const names::Parameter& parameter : table_.parameters) {
      for (std::vector<StoredPart>& parts = parts_.emplace_back(); const names::Part& part : parameter.parts)
        parts.push_back(place(part, parameter.positions));
    }
    // Files are made of zeros.
    for (const names::Part& part : table_.zeros) static_cast<void>(place(part, false));
    if (!factors_.empty()) add(std::string(arch::gguf::rope_factors_name), ElementType::f32, {std::ssize(factors_)});
    lay_out_gguf(content_);
  }

  std::uint64_t bytes() const { return content_.file_bytes; }

  void write(io::File& file, const EachPiece& each_piece) {
    file.resize(content_.file_bytes);
    const std::string start = io::gguf_header_bytes(content_);
    file.write_at(0, std::as_bytes(std::span(start)));
    if (!factors_.empty()) file.write_at(content_.tensors.back().offset, std::as_bytes(std::span(factors_)));
    std::size_t tensor = 0;
    for (std::vector<StoredPart>& parts : parts_) {
      for (StoredPart& part : parts) {
        part.file = &file;
        part.offset = content_.tensors[tensor++].offset;
      }
    }
    PartWriter writer(table_, parts_);
    each_piece(table_,
               [&](std::size_t index, std::int64_t first, std::span<float> values) { writer.write(index, first, values); });
    writer.demand_fit(file_types[static_cast<std::size_t>(type_)].limit, "--type f32 holds every weight");
  }

 private:
  StoredPart place(const names::Part& published, bool positions) {
    names::Part part = as_rows(published);
    const auto name = architecture_.gguf_name(part.name);
    ensure(name.has_value(), "the architecture's table has every name of the family");
    const bool vector = part.shape.rank() < 2;
    ElementType type = vector || positions ? ElementType::f32 : type_;
    if (type == ElementType::q8_0 && static_cast<std::size_t>(part.shape.last()) % block_of(type) != 0) type = ElementType::f16;
    add(name->name, type, vector ? std::vector{part.shape[0]} : std::vector{part.shape[0], part.shape[1]});
    return {std::move(part), nullptr, 0, type, name->paired ? config_.head_size : 0, name->added};
  }
  void add(std::string name, ElementType type, std::vector<std::int64_t> shape) {
    io::GgufTensor& tensor = content_.tensors.emplace_back();
    tensor.name = std::move(name);
    tensor.type = &io::gguf_type(stored_name(type));
    tensor.shape = std::move(shape);
  }

  arch::ModelConfig config_;
  names::Family family_;
  Json json_;
  const arch::gguf::Architecture& architecture_;
  names::TensorTable table_;
  std::vector<float> factors_;
  ElementType type_;
  io::Gguf content_;
  std::vector<std::vector<StoredPart>> parts_;  ///< by parameter
};

ExportReport write_file(const arch::ModelConfig& config, ElementType stored, const io::Path& path, const GgufOptions& options,
                        const EachPiece& each_piece) {
  demand_new(path);
  const ElementType type = options.type.value_or(stored);
  GgufFile content(config, type, options);
  io::make_folders(io::folder_of(path));
  io::demand_space(io::folder_of(path), content.bytes(), "the model");
  io::Replacement target(path);
  content.write(target.file(), each_piece);
  target.commit();
  return {content.bytes(), 1, type};
}

}  // namespace

ExportReport export_gguf(const Reader& reader, const io::Path& path, const GgufOptions& options, Team& team) {
  const arch::ModelConfig config = arch::model_from_json(reader.manifest().model, reader.folder().string());
  const ElementType stored = stored_type(reader, names::tensor_table(config, names::family_of(config)));
  return write_file(config, stored, path, options, [&](const names::TensorTable& table, const Weights::Take& take) {
    for_each_piece(reader, table, team, take);
  });
}

ExportReport export_gguf(const Weights& weights, const io::Path& path, const GgufOptions& options, Team& team) {
  return write_file(weights.config(), weights.type(), path, options,
                    [&](const names::TensorTable&, const Weights::Take& take) { weights.for_each_piece(team, take); });
}

}  // namespace lockstep::checkpoint::huggingface
