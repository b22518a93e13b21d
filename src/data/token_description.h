#pragma once

// tokens.json: what the token files of a folder are and how to get text back from them. Written last, so a folder that has it
// is whole.
//
//   {"format": "lockstep-tokens", "version": 1, "tokenizer": {"name": "char", ...}, "vocabulary": 65, "dtype": "uint16",
//    "characters": 1115394, "files": {"train.bin": {"tokens": ..., "text_bytes": ..., "sha256": "..."}, "val.bin": {...}}}
//
// "text": {"bytes": ..., "sha256": "..."} says what was prepared. A description of JSONL also has "documents". A file with a loss
// mask has "mask": {"name": "train.mask.bin", "targets": ..., "sha256": "..."}. Where windows have whole documents, "packing" is
// {"length": 2048, "separator": 151645}. It also has "pairs": true where they have pairs. Conversations have
// "chats": {"template": "{% for ...", "tokens": {"eos_token": "</s>"}, "end": 2}.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/token_file.h"
#include "io/file.h"

namespace lockstep::data {

struct MaskFacts {
  std::string name;          ///< in the folder: "train.mask.bin"
  std::int64_t targets = 0;  ///< tokens that are taught
  std::string sha256;
};

struct TokenFileFacts {
  std::string name;  ///< in the folder: "train.bin", "val.bin"
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;  ///< bytes of the text that its taught tokens stand for: what bits per byte divide by
  std::string sha256;
  std::optional<MaskFacts> mask = {};  ///< none: every token is taught
};

/// What was prepared: all of its bytes, one file behind the other.
struct TextFacts {
  std::int64_t bytes = 0;
  std::string sha256;
};

/// How conversations were written.
struct ChatFacts {
  std::string chat_template;        ///< its source
  Json::Object tokens;              ///< the texts of "bos_token" and the like, which it writes
  std::optional<std::int32_t> end;  ///< the special token that ends a taught turn of the assistant; none: no token does
  friend bool operator==(const ChatFacts&, const ChatFacts&) = default;
};

/// How documents lie in the files where windows have whole ones.
struct Packing {
  std::int64_t length = 0;     ///< tokens of a window, which begins at each multiple of them
  std::int32_t separator = 0;  ///< the token between documents, and behind the last of a window; no document has it
  bool pairs = false;  ///< a window has one document: of a pair the chosen answer, and the rejected one in the next window
  friend bool operator==(const Packing&, const Packing&) = default;
};

struct TokenDescription {
  Json tokenizer;  ///< Tokenizer::describe()
  TokenFormat format;
  std::int64_t characters = 0;  ///< characters of the whole text
  std::int64_t documents = 0;   ///< documents of JSONL; 0: the text is text files
  std::vector<TokenFileFacts> files;
  std::optional<TextFacts> text = {};  ///< none: made by an older version
  std::optional<Packing> packing = {};
  std::optional<ChatFacts> chats = {};

  /// Null when no such file is described.
  const TokenFileFacts* find(std::string_view name) const;
};

/// The file's name.
inline constexpr const char* description_file = "tokens.json";
inline constexpr const char* description_format = "lockstep-tokens";
/// A folder in a prepared one: whole files that a preparation which died did not move into their places (data/prepare/staging.h).
inline constexpr const char* prepared_folder = ".prepared";
/// Tokenizer::describe()'s member with a BPE's tokenizer.json.
inline constexpr const char* stored_bpe = "tokenizer_json";

/// Whether a file of this name may be one that a preparation makes: train.bin, val.bin, a shard, the mask of one.
bool is_prepared_name(std::string_view name);
/// Where a file of a prepared folder is.
io::Path described_path(const io::Path& folder, std::string_view name);
/// Whether the folder has a description.
bool is_prepared(const io::Path& folder);

Json to_json(const TokenDescription& description);
/// Throws UserError, naming `what`, for another format, a later version or values that contradict each other.
TokenDescription description_from_json(const Json& json, const std::string& what);

/// The description in the folder; nothing when it has no tokens.json. Throws UserError when there is no such folder.
std::optional<TokenDescription> read_description(const io::Path& folder);
/// The description in the file `path`. Throws UserError.
TokenDescription read_description_file(const io::Path& path);
/// The description in a file's text; `name` is the file's, for errors.
TokenDescription parse_description(const std::string& text, const std::string& name);
/// The text of a description; throws what keeps it from being read.
std::string description_text(const io::Path& path);
void write_description(const io::Path& folder, const TokenDescription& description);

/// Opens one described file, with its mask, and compares their sizes with the description (UserError when they disagree).
TokenFile open_described(const io::Path& folder, const TokenDescription& description, std::string_view name);
/// Names of the files whose hash is not the described one. Reads everything.
std::vector<std::string> damaged_files(const io::Path& folder, const TokenDescription& description);

}  // namespace lockstep::data
