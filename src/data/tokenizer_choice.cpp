#include "data/tokenizer_choice.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/number_text.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/gpt2_files.h"
#include "data/bpe/tokenizer_json.h"
#include "data/bpe/training.h"
#include "data/folder_tokenizer.h"
#include "data/gguf_tokenizer.h"
#include "data/plain_tokenizer_json.h"
#include "io/file.h"
#include "io/gguf.h"

namespace lockstep::data {
namespace {

TokenizerChoice trained(std::string_view size) {
  constexpr std::int64_t most = 1'000'000;
  const auto vocabulary = number_from<std::int64_t>(size);
  if (!vocabulary || *vocabulary < bpe::smallest_vocabulary || *vocabulary > most) {
    throw UserError(
        fmt::format("tokenizer \"bpe:{}\": its size is not a number from {} to {}", size, bpe::smallest_vocabulary, most),
        "bpe:32768 trains a vocabulary of 32,768 tokens");
  }
  return {.kind = TokenizerChoice::Kind::trained, .vocabulary = *vocabulary};
}

// Other files that a folder has its tokenizer in.
void demand_json(const io::Path& path) {
  const std::string end = path.extension().string();
  const bool folder = io::is_folder(path);
  if (!folder && end != ".model" && end != ".tiktoken") return;
  throw UserError(fmt::format("tokenizer \"hf:{}\": {}", path.string(),
                              folder            ? "the folder has no tokenizer.json"
                              : end == ".model" ? "a SentencePiece model is not read, but a tokenizer.json"
                                                : "a list of tiktoken is not read, but a tokenizer.json"),
                  make_tokenizer_json(folder ? path.string() : io::folder_of(path).string()));
}

std::unique_ptr<Tokenizer> tokenizer_of_gguf_file(const io::Path& file) {
  return tokenizer_of_gguf(io::parse_gguf(io::FileBytes(file), file.string()).pairs, file.string());
}

// What the tokenizer.json at `path` says, with what lies beside it.
std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& json, const std::string& path) {
  if (std::unique_ptr<Tokenizer> plain = plain_tokenizer(json)) return plain;
  return bpe::make_bpe_tokenizer(bpe::model_from_json(json, path), json.dump(), bpe::AddedTokens::found);
}

}  // namespace

TokenizerChoice tokenizer_choice(std::string_view name) {
  using Kind = TokenizerChoice::Kind;
  if (name == "char") return {.kind = Kind::characters};
  if (name == "byte") return {.kind = Kind::bytes};
  const std::size_t colon = name.find(':');
  const std::string_view word = name.substr(0, colon);
  if (word == "bpe") return trained(colon == std::string_view::npos ? "" : name.substr(colon + 1));
  if (word != "gpt2" && word != "hf") {
    throw UserError(fmt::format("tokenizer \"{}\" is not known", name),
                    "known are char, byte, gpt2:FOLDER, hf:FILE and bpe:SIZE");
  }
  const std::string path(colon == std::string_view::npos ? "" : name.substr(colon + 1));
  if (path.empty()) {
    throw UserError(fmt::format("tokenizer \"{}\" does not say where its vocabulary is", name),
                    word == "gpt2" ? "name the folder of encoder.json and vocab.bpe: gpt2:FOLDER"
                                   : "name a tokenizer.json or its folder: hf:FILE");
  }
  return {.kind = word == "gpt2" ? Kind::gpt2 : Kind::hf, .path = path};
}

std::unique_ptr<Tokenizer> load_tokenizer(const TokenizerChoice& choice) {
  switch (choice.kind) {
    case TokenizerChoice::Kind::characters:
    case TokenizerChoice::Kind::trained:
      return nullptr;
    case TokenizerChoice::Kind::bytes:
      return make_byte_tokenizer();
    case TokenizerChoice::Kind::gpt2: {
      bpe::Model model = bpe::read_gpt2_files(choice.path);
      std::string json = bpe::to_json(model).dump();
      return bpe::make_bpe_tokenizer(std::move(model), std::move(json), bpe::AddedTokens::ordinary);
    }
    case TokenizerChoice::Kind::hf: {
      if (!choice.described.is_null()) return make_tokenizer(choice.described);
      const io::Path file = choice.path;
      if (io::is_gguf(file)) return tokenizer_of_gguf_file(file);
      if (io::is_folder(file)) {
        if (const std::optional<Json> json = tokenizer_json_of(read_tokenizer_files(file)))
          return tokenizer_from_json(*json, (file / "tokenizer.json").string());
      }
      demand_json(file);
      return tokenizer_from_json(tokenizer_json_at(file), file.string());
    }
  }
  return nullptr;
}

PublishedTokenizer find_published_tokenizer(const io::Path& folder) {
  // What cannot be read is another thing than no tokenizer, or one of another kind.
  const bool gguf = io::is_gguf(folder);
  const TokenizerFiles files = gguf || !io::is_folder(folder) ? TokenizerFiles() : read_tokenizer_files(folder);
  try {
    if (gguf) return {tokenizer_of_gguf_file(folder), ""};
    if (const std::optional<Json> json = tokenizer_json_of(files))
      return {tokenizer_from_json(*json, (folder / "tokenizer.json").string()), ""};
  } catch (const UserError& error) {
    return {nullptr, error.problems().front().message};
  }
  return {nullptr, fmt::format("{} has no tokenizer.json", folder.string())};
}

}  // namespace lockstep::data
