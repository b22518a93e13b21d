#include "app/inspect/tensor_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/config_json.h"
#include "checkpoint/huggingface/weights.h"
#include "data/tokenizer_choice.h"
#include "io/checksum.h"
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

// Of a tensor's elements, read in pieces.
Content content_of(const io::File& file, const io::SafetensorsEntry& entry) {
  const std::size_t size = io::safetensors_element_size(entry.dtype);
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(entry.bytes, std::uint64_t{1} << 20)));
  Content content;
  for (std::uint64_t at = 0; at < entry.bytes; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), entry.bytes - at)));
    file.read_at(entry.offset + at, piece);
    content.checksum += io::checksum(piece, size, at / size);
    content.finite = content.finite && is_finite(piece, entry.dtype);
  }
  return content;
}

Json entry_json(const io::SafetensorsEntry& entry, const Content& content) {
  Json row = Json::Object{{"name", entry.name},
                          {"dtype", entry.dtype},
                          {"shape", Json::Array(entry.shape.begin(), entry.shape.end())},
                          {"elements", entry.bytes / io::safetensors_element_size(entry.dtype)},
                          {"bytes", entry.bytes},
                          {"checksum", fmt::format("{:016x}", content.checksum)}};
  if (!content.finite) row.set("finite", false);
  return row;
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
  std::vector<Content> contents(header.entries.size());
  team.for_each(std::ssize(header.entries), [&](std::int64_t i, int) {
    contents[static_cast<std::size_t>(i)] = content_of(file, header.entries[static_cast<std::size_t>(i)]);
  });
  Json metadata{Json::Object{}};
  for (const auto& [key, value] : header.metadata) metadata.set(key, value);
  Json::Array tensors;
  std::uint64_t parameters = 0;
  for (std::size_t i = 0; i < header.entries.size(); ++i) {
    tensors.push_back(entry_json(header.entries[i], contents[i]));
    parameters += header.entries[i].bytes / io::safetensors_element_size(header.entries[i].dtype);
  }
  return Json::Object{{"kind", "safetensors"},      {"path", path.string()},           {"parameters", parameters},
                      {"bytes", header.file_bytes}, {"metadata", std::move(metadata)}, {"tensors", std::move(tensors)}};
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
