#include "data/corpus.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shell.h"
#include "base/units.h"
#include "data/verification.h"
#include "io/file.h"

namespace lockstep::data {
namespace {

Json told_file(const TokenFile& file, std::int64_t text_bytes) {
  return Json::Object{{"path", file.path()}, {"tokens", file.tokens()}, {"mask", file.mask_path()}, {"text_bytes", text_bytes}};
}

std::optional<std::int32_t> end_of_documents(const TokenDescription& description, const Tokenizer& tokenizer) {
  return description.documents > 0 ? document_end(tokenizer) : std::nullopt;
}

TokenFile file_of(const Json& told, TokenFormat format) {
  return TokenFile::elsewhere(told.at("path").string(), format, told.at("tokens").integer(), told.at("mask").string());
}

}  // namespace

Corpus open_corpus(const io::Path& folder, const CorpusRequest& request, Log& log) {
  const std::optional<TokenDescription> description = read_description(folder);
  TokenRequest ids{.vocabulary = request.vocabulary, .ids = request.ids};
  if (!description) {
    TokenFile train = open_token_file((folder / request.train).string(), ids);
    ids.vocabulary = train.format().vocabulary;
    Corpus corpus{.train = std::move(train), .val = open_token_file((folder / "val.bin").string(), ids), .tokenizer = nullptr};
    if (request.documents) {
      corpus.document_end = document_end(corpus.train);
      if (corpus.document_end != document_end(corpus.val)) corpus.document_end.reset();
    }
    // nanoGPT's words; a pickle that is there is not read.
    log.warning(io::exists(folder / "meta.pkl") ? "No tokens.json found (meta.pkl is not read), assuming GPT-2 encodings..."
                                                : "No meta.pkl found, assuming GPT-2 encodings...");
    return corpus;
  }
  demand_told(ids, description->format, (folder / description_file).string());
  Corpus corpus{.train = open_described(folder, *description, request.train),
                .val = open_described(folder, *description, "val.bin"),
                .tokenizer = make_tokenizer(description->tokenizer)};
  if (corpus.tokenizer->vocabulary() > corpus.vocabulary()) {
    throw UserError(fmt::format("tokens.json of {} says vocabulary {}, but its tokenizer has {}", folder.string(),
                                corpus.vocabulary(), corpus.tokenizer->vocabulary()),
                    "prepare the text again with lockstep prepare");
  }
  for (const TokenFile* file : {&corpus.train, &corpus.val}) {
    if (request.vocabulary) demand_known_ids(*file, *request.vocabulary);
  }
  corpus.train_text_bytes = description->find(request.train)->text_bytes;
  corpus.val_text_bytes = description->find("val.bin")->text_bytes;
  corpus.document_end = end_of_documents(*description, *corpus.tokenizer);
  corpus.packing = description->packing;
  corpus.chats = description->chats;
  return corpus;
}

std::string tell_corpus(const io::Path& folder, const Corpus& corpus) {
  const TokenFormat& format = corpus.train.format();
  const std::optional<TokenDescription> description = read_description(folder);
  return Json(Json::Object{{"token_bytes", format.token_bytes},
                           {"vocabulary", format.vocabulary},
                           {"train", told_file(corpus.train, corpus.train_text_bytes)},
                           {"val", told_file(corpus.val, corpus.val_text_bytes)},
                           {"document_end", corpus.document_end ? Json(*corpus.document_end) : Json()},
                           {"description", description ? to_json(*description) : Json()}})
      .dump();
}

Corpus told_corpus(const io::Path& folder, const std::string& told) {
  const Json json = Json::parse(told);
  const TokenFormat format{.token_bytes = static_cast<int>(json.at("token_bytes").integer()),
                           .vocabulary = json.at("vocabulary").integer()};
  const Json& description = json.at("description");
  const Json &train = json.at("train"), &val = json.at("val"), &end = json.at("document_end");
  Corpus corpus{.train = file_of(train, format),
                .val = file_of(val, format),
                .tokenizer = nullptr,
                .train_text_bytes = train.at("text_bytes").integer(),
                .val_text_bytes = val.at("text_bytes").integer()};
  if (!end.is_null()) corpus.document_end = static_cast<std::int32_t>(end.integer());
  if (description.is_null()) return corpus;
  const TokenDescription described = description_from_json(description, (folder / description_file).string());
  corpus.tokenizer = make_tokenizer(described.tokenizer);
  corpus.packing = described.packing;
  corpus.chats = described.chats;
  return corpus;
}

void verify_corpus(const io::Path& folder, std::span<const TokenFile* const> files, Log& log) {
  const std::optional<TokenDescription> description = read_description(folder);
  std::vector<std::string> names;
  for (const TokenFile* file : files) {
    if (!description) file->check_ids();
    names.push_back(io::Path(file->path()).filename().string());
  }
  if (description) verify_files(folder, *description, names, log);
}

void demand_known_ids(const TokenFile& file, std::int64_t vocabulary) {
  const std::optional<std::int64_t> id = file.format().vocabulary > vocabulary ? file.id_from(vocabulary) : std::nullopt;
  if (!id) return;
  throw UserError(
      fmt::format("{} has tokens of a vocabulary of {}, the model one of {}: token {} is none of the model's", file.path(),
                  format_count(file.format().vocabulary), format_count(vocabulary), *id),
      "prepare the text with the tokenizer that the model was trained with, or train a model of the text's vocabulary");
}

void demand_same_tokens(const Tokenizer* text, const std::string& named, const Tokenizer* of_model, const std::string& model) {
  if (text == nullptr || of_model == nullptr) return;
  const std::optional<std::int32_t> id = other_meaning(*text, *of_model);
  if (!id) return;
  const auto tell = [&](const Tokenizer& tokenizer) {
    return fmt::format("{} of {} tokens, where token {} is {}", tokenizer.name(), format_count(tokenizer.vocabulary()), *id,
                       Json(tokenizer.bytes(*id)).dump());
  };
  const bool as_file = io::exists(io::Path(model) / "tokenizer.json");
  const std::string command =
      own_command({"prepare", "TEXT", "--tokenizer", "hf:" + (as_file ? model : "FOLDER"), "--out", "DATA"});
  throw UserError(fmt::format("{} was prepared with another tokenizer than the model's: {}; of {}: {}", named, tell(*text), model,
                              tell(*of_model)),
                  fmt::format("prepare the text with the model's: {}{}", command,
                              as_file ? "" : ", where FOLDER has its tokenizer.json (lockstep convert writes it)"));
}

TokenText open_tokens(const io::Path& path, const TokenRequest& request) {
  const io::Path folder = path.has_parent_path() ? path.parent_path() : io::Path(".");
  if (io::is_folder(folder)) {
    const std::optional<TokenDescription> description = read_description(folder);
    const TokenFileFacts* facts = description ? description->find(path.filename().string()) : nullptr;
    if (facts != nullptr) {
      demand_told(request, description->format, (folder / description_file).string());
      return {open_described(folder, *description, facts->name), facts->text_bytes,
              facts->mask ? facts->mask->targets : facts->tokens, description->packing, make_tokenizer(description->tokenizer)};
    }
  }
  TokenFile file = open_token_file(path.string(), request);
  const std::int64_t tokens = file.tokens();
  return {.file = std::move(file), .targets = tokens};
}

}  // namespace lockstep::data
