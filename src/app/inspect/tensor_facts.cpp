#include "app/inspect/tensor_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/config_json.h"
#include "checkpoint/huggingface/weights.h"
#include "data/tokenizer_choice.h"
#include "io/checksum.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "tensor/finite.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// What its bytes say of a tensor.
struct Content {
  std::uint64_t checksum = 0;
  bool finite = true;  ///< or of a type for which that is not asked
};

bool is_finite(std::span<const std::byte> elements, std::string_view dtype) {
  if (dtype == "F16") return all_finite_halves(elements);
  if (dtype != "F32" && dtype != "BF16") return true;
  return all_finite(elements, dtype == "F32" ? DType::f32 : DType::bf16);
}

// A tensor's elements, or blocks of them, have `size` bytes; they are read in pieces.
Content content_of(const io::File& file, const io::SafetensorsEntry& entry, std::size_t size) {
  constexpr std::size_t most = std::size_t{1} << 20;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(entry.bytes, most / size * size)));
  Content content;
  for (std::uint64_t at = 0; at < entry.bytes; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), entry.bytes - at)));
    file.read_at(entry.offset + at, piece);
    content.checksum += io::checksum(piece, size, at / size);
    content.finite = content.finite && is_finite(piece, entry.dtype);
  }
  return content;
}

Content content_of(const io::File& file, const io::SafetensorsEntry& entry) {
  const std::size_t size = io::safetensors_element_size(entry.dtype);
  return content_of(file, entry, size > 0 ? size : static_cast<std::size_t>(io::gguf_type(entry.dtype).bytes));
}

std::int64_t elements_of(const io::SafetensorsEntry& entry) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : entry.shape) elements *= extent;
  return elements;
}

Json entry_json(const io::SafetensorsEntry& entry, const Content& content) {
  Json row = Json::Object{{"name", entry.name},
                          {"dtype", entry.dtype},
                          {"shape", Json::Array(entry.shape.begin(), entry.shape.end())},
                          {"elements", elements_of(entry)},
                          {"bytes", entry.bytes},
                          {"checksum", fmt::format("{:016x}", content.checksum)}};
  if (!content.finite) row.set("finite", false);
  return row;
}

Json tensor_file_facts(const char* kind, const io::File& file, const std::vector<io::SafetensorsEntry>& entries, Json metadata,
                       Team& team) {
  std::vector<Content> contents(entries.size());
  team.for_each(std::ssize(entries), [&](std::int64_t i, int) {
    contents[static_cast<std::size_t>(i)] = content_of(file, entries[static_cast<std::size_t>(i)]);
  });
  Json::Array tensors;
  std::int64_t parameters = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    tensors.push_back(entry_json(entries[i], contents[i]));
    parameters += elements_of(entries[i]);
  }
  return Json::Object{{"kind", kind},         {"path", file.path().string()},    {"parameters", parameters},
                      {"bytes", file.size()}, {"metadata", std::move(metadata)}, {"tensors", std::move(tensors)}};
}

// A vocabulary is told by how it begins.
std::string list_text(const Json::Array& list) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, list.size()); ++i) text += (i > 0 ? ", " : "") + list[i].dump();
  return fmt::format("{} elements: {}{}", list.size(), text, list.size() > most ? ", ..." : "");
}

// How the folder's text becomes tokens, or why it does not.
Json tokenizer_facts(const fs::path& folder) {
  const data::PublishedTokenizer found = data::find_published_tokenizer(folder);
  if (!found.tokenizer) return Json::Object{{"fault", found.fault}};
  return Json::Object{{"name", found.tokenizer->name()}, {"vocabulary", found.tokenizer->vocabulary()}};
}

}  // namespace

Json safetensors_facts(const fs::path& path, Team& team) {
  const io::File file = io::File::open_to_read(path);
  const io::SafetensorsHeader header = io::parse_safetensors(io::read_safetensors_start(file), file.size(), path.string());
  Json metadata{Json::Object{}};
  for (const auto& [key, value] : header.metadata) metadata.set(key, value);
  return tensor_file_facts("safetensors", file, header.entries, std::move(metadata), team);
}

Json gguf_facts(const fs::path& path, Team& team) {
  const io::Gguf content = io::parse_gguf(io::FileBytes(path), path.string());
  std::vector<io::SafetensorsEntry> entries;
  for (const io::GgufTensor& tensor : content.tensors)
    entries.push_back({tensor.name, std::string(tensor.type->name), tensor.shape, tensor.offset, tensor.bytes});
  Json metadata{Json::Object{}};
  for (const auto& [key, value] : content.pairs.object()) metadata.set(key, value.is_array() ? list_text(value.array()) : value);
  return tensor_file_facts("gguf", io::File::open_to_read(path), entries, std::move(metadata), team);
}

Json published_facts(const fs::path& folder, Team& team) {
  namespace huggingface = checkpoint::huggingface;
  const huggingface::Weights weights(folder);
  const huggingface::Folder& files = weights.folder();
  const std::vector<std::string> names = files.names();
  Json::Array tensors(names.size());
  team.for_each(std::ssize(names), [&](std::int64_t i, int) {
    const auto n = static_cast<std::size_t>(i);
    const huggingface::Folder::Stored& stored = *files.find(names[n]);
    Json row = entry_json(stored.entry, content_of(*stored.file, stored.entry));
    row.set("file", stored.file->path().filename().string());
    tensors[n] = std::move(row);
  });
  std::int64_t parameters = 0, bytes = 0;
  for (const Json& tensor : tensors) {
    parameters += tensor.at("elements").integer();
    bytes += tensor.at("bytes").integer();
  }
  const std::vector<std::string>& warnings = weights.warnings();
  return Json::Object{{"kind", "published model"},
                      {"path", folder.string()},
                      {"parameters", parameters},
                      {"bytes", bytes},
                      {"model", arch::to_json(weights.config())},
                      {"tokenizer", tokenizer_facts(files.path())},
                      {"warnings", Json::Array(warnings.begin(), warnings.end())},
                      {"tensors", std::move(tensors)}};
}

}  // namespace lockstep::app
