#pragma once

// The files of a published model: config.json and safetensors, one or several with an index. A GGUF file is read as if it were
// those.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "checkpoint/huggingface/elements.h"
#include "io/file.h"
#include "io/safetensors.h"

namespace lockstep::checkpoint::huggingface {

inline constexpr std::string_view config_file = "config.json";
inline constexpr std::string_view weights_file = "model.safetensors";
inline constexpr std::string_view index_file = "model.safetensors.index.json";
inline constexpr std::string_view tokenizer_file = "tokenizer.json";
inline constexpr const char *tokenizer_config_file = "tokenizer_config.json", *chat_template_file = "chat_template.jinja";

/// Names of tensors by the shard that an index says they are in, a file of its folder; `what` names the index. Throws UserError.
std::map<std::string, std::vector<std::string>> shards_of_index(std::string_view text, const std::string& what);

/// Whether the path means a published model: a safetensors or GGUF file, or a folder with config.json or weights that is no run's
/// or checkpoint's.
bool is_published(const io::Path& path);

class Folder {
 public:
  /// Opens a folder, a safetensors file with config.json beside it, or a GGUF file. Reads all headers. Throws UserError: files
  /// that are missing, damaged or of another kind, an index that contradicts the files.
  explicit Folder(const io::Path& path);

  const io::Path& path() const { return path_; }  ///< the folder; for a GGUF file, its own path
  const Json& config() const { return config_; }
  bool is_gguf() const { return gguf_; }
  /// The file that says what config() has: config.json's path, or a GGUF file's.
  std::string config_path() const { return gguf_ ? path_.string() : (path_ / config_file).string(); }
  /// What a GGUF file has in place of a folder's other files: texts by the names of these files.
  const Json& texts() const { return texts_; }

  struct Stored {
    io::SafetensorsEntry entry;
    io::File* file;
    // These two are true in GGUF files alone.
    bool rows = false;    ///< a matrix is [out, in] even where the family has it the other way round
    bool paired = false;  ///< the rows of each head stand in pairs (StoredPart)
    float added = 0;      ///< the file's elements are so much larger
  };
  /// The tensor of that name, or null.
  const Stored* find(std::string_view name) const;
  /// The names of all tensors, in alphabetical order.
  std::vector<std::string> names() const;

 private:
  void open_file(const io::Path& file);
  void open_shards();
  void open_gguf();

  io::Path path_;
  bool gguf_ = false;
  Json texts_ = Json(Json::Object{});
  Json config_;
  std::vector<io::File> files_;
  std::unordered_map<std::string, Stored> tensors_;
};

}  // namespace lockstep::checkpoint::huggingface
