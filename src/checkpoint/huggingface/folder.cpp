#include "checkpoint/huggingface/folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/gguf.h"
#include "base/error.h"
#include "checkpoint/find.h"
#include "checkpoint/problems.h"
#include "io/folder_entries.h"
#include "io/gguf.h"

namespace lockstep::checkpoint::huggingface {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view extension = ".safetensors";
constexpr std::uint64_t most_index_bytes = std::uint64_t{32} << 20, most_config_bytes = std::uint64_t{1} << 20;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<fs::path> safetensors_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const fs::path& path : io::entries_of(folder, failed)) {
    if (path.extension() == extension) found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The only safetensors file of a folder without the usual name.
fs::path single_file(const fs::path& folder) {
  const std::vector<fs::path> found = safetensors_in(folder);
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    throw UserError(fmt::format("{}: there are {} safetensors files, but no {} that says what each holds", folder.string(),
                                found.size(), index_file),
                    fmt::format("give one of them by its name, or the index that belongs to them"));
  }
  const bool pickled = is_there(folder / "pytorch_model.bin") || is_there(folder / "pytorch_model.bin.index.json");
  throw UserError(fmt::format("{}: there is no {}{}", folder.string(), weights_file, pickled ? ", only pytorch_model.bin" : ""),
                  pickled ? "save the model again with save_pretrained(folder, safe_serialization=True)"
                          : "give a folder with config.json and safetensors files");
}

fs::path folder_of(const fs::path& path) {
  if (path.extension() != extension || io::is_gguf(path)) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

io::SafetensorsHeader read_header(const io::File& file) {
  return io::parse_safetensors(io::read_safetensors_start(file), file.size(), file.path().string());
}

}  // namespace

std::map<std::string, std::vector<std::string>> shards_of_index(std::string_view text, const std::string& what) {
  const std::string remedy = "take the index that belongs to the files";
  const Json json = Json::parse(text, what);
  const Json* map = json.is_object() ? json.find("weight_map") : nullptr;
  if (map == nullptr || !map->is_object() || map->object().empty())
    throw UserError(fmt::format("{}: \"weight_map\" is missing or no object", what), remedy);
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [name, file] : map->object()) {
    const bool good = file.is_string() && !file.string().empty() && file.string().front() != '.' &&
                      file.string().find('/') == std::string::npos;
    if (!good) {
      throw UserError(fmt::format("{}: the tensor \"{}\" is said to be in {}, which is no file's name", what, name,
                                  file.dump().substr(0, 80)),
                      remedy);
    }
    shards[file.string()].push_back(name);
  }
  return shards;
}

bool is_published(const io::Path& path) {
  std::error_code ignored;
  if (path.extension() == extension && fs::is_regular_file(path, ignored)) return true;
  if (io::is_gguf(path)) return true;
  if (is_checkpoint(path) || is_there(path / checkpoints_folder) || is_there(path / "config.toml")) return false;
  return is_there(path / config_file) || is_there(path / weights_file) || is_there(path / index_file);
}

Folder::Folder(const io::Path& path) : path_(folder_of(path)) {
  if (!is_there(path)) throw UserError(fmt::format("{}: there is no such file or folder", path.string()), "check the path");
  files_.reserve(1);  // tensors point into it
  if (io::is_gguf(path)) {
    open_gguf();
    return;
  }
  if (!is_there(path_ / config_file)) {
    throw UserError(fmt::format("{}: there is no {}, which says what the model is", path_.string(), config_file),
                    "take the one that the weights were published with");
  }
  config_ = Json::parse(io::read_document(path_ / config_file, most_config_bytes), config_path());
  if (path != path_) {
    open_file(path);
  } else if (is_there(path_ / weights_file)) {
    open_file(path_ / weights_file);
  } else if (is_there(path_ / index_file)) {
    open_shards();
  } else {
    open_file(single_file(path_));
  }
}

void Folder::open_file(const io::Path& file) {
  files_.push_back(io::File::open_to_read(file));
  for (io::SafetensorsEntry& entry : read_header(files_.back()).entries) {
    std::string name = entry.name;
    const auto [place, added] = tensors_.try_emplace(std::move(name), Stored{std::move(entry), &files_.back()});
    if (!added) {
      throw UserError(fmt::format("{}: the tensor \"{}\" is in another file too", file.string(), place->first),
                      "leave one of the files out");
    }
  }
}

void Folder::open_shards() {
  const io::Path index = path_ / index_file;
  const auto shards = shards_of_index(io::read_document(index, most_index_bytes), index.string());
  std::vector<Problem> problems;
  for (const auto& [file, names] : shards) {
    if (is_there(path_ / file)) continue;
    problems.push_back({fmt::format("{}: {} is not there, which has the tensor \"{}\"{}", (path_ / index_file).string(), file,
                                    names.front(), names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : ""),
                        "fetch the missing file, or take the index that belongs to the files"});
  }
  if (!problems.empty()) throw_first(std::move(problems), "files");
  files_.reserve(shards.size());
  for (const auto& [file, names] : shards) {
    open_file(path_ / file);
    for (const std::string& name : names) {
      const Stored* stored = find(name);
      if (stored != nullptr && stored->file == &files_.back()) continue;
      throw UserError(fmt::format("{}: the tensor \"{}\" is said to be in {}, which does not have it",
                                  (path_ / index_file).string(), name, file),
                      "take the index that belongs to the files");
    }
  }
}

void Folder::open_gguf() {
  namespace gguf = arch::gguf;
  gguf_ = true;
  const std::string what = path_.string();
  const io::Gguf content = io::parse_gguf(io::FileBytes(path_), what);
  if (const Json* parts = content.pairs.find("split.count"); parts != nullptr && parts->is_int() && parts->integer() > 1) {
    throw UserError(fmt::format("{}: it is one of {} parts of a model (\"split.count\")", what, parts->integer()),
                    "make one file of them: llama-gguf-split --merge FIRST-PART ALL.gguf");
  }
  const gguf::Architecture& architecture = gguf::architecture_of_pairs(content.pairs, what);
  files_.push_back(io::File::open_to_read(path_));
  gguf::TensorFacts facts;
  for (const io::GgufTensor& tensor : content.tensors) {
    if (tensor.name == gguf::rope_factors_name && tensor.type == &io::gguf_type("F32")) {
      facts.rope_factors.resize(static_cast<std::size_t>(tensor.bytes) / sizeof(float));
      files_.front().read_at(tensor.offset, std::as_writable_bytes(std::span(facts.rope_factors)));
      continue;
    }
    const auto known = architecture.huggingface_name(tensor.name);
    const gguf::TensorName name = known.value_or(gguf::TensorName{tensor.name});
    tensors_.emplace(name.name, Stored{{name.name, std::string(tensor.type->name), tensor.shape, tensor.offset, tensor.bytes},
                                       &files_.front(),
                                       true,
                                       name.paired,
                                       name.added});
  }
  if (const io::GgufTensor* tokens = content.find("token_embd.weight")) facts.vocabulary = tokens->shape.front();
  facts.head = content.find("output.weight") != nullptr;
  facts.biases = content.find("blk.0.attn_output.bias") != nullptr;
  config_ = gguf::config_of(content.pairs, facts, what);
  texts_ = io::texts_of_gguf(content.pairs);
}

const Folder::Stored* Folder::find(std::string_view name) const {
  const auto found = tensors_.find(std::string(name));
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> all;
  all.reserve(tensors_.size());
  for (const auto& [name, stored] : tensors_) all.push_back(name);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace lockstep::checkpoint::huggingface
