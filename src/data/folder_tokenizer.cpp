#include "data/folder_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text/visible.h"
#include "data/bpe/gpt2_files.h"
#include "data/bpe/tokenizer_json.h"
#include "data/bpe/words.h"
#include "data/chat/model_texts.h"

namespace lockstep::data {
namespace {

constexpr const char *whole_file = "tokenizer.json", *added_file = "added_tokens.json", *model_file = "config.json";
constexpr std::array<const char*, 2> vocabularies = {"encoder.json", "vocab.json"}, merges = {"vocab.bpe", "merges.txt"};

bool says(const Json& json, std::string_view key, bool otherwise = false) {
  const Json* value = json.is_object() ? json.find(key) : nullptr;
  return value != nullptr && value->is_bool() ? value->boolean() : otherwise;
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* value = json.is_object() ? json.find(key) : nullptr;
  return value != nullptr && value->is_string() ? value->string() : "";
}

/// "Qwen2Tokenizer": by tokenizer_config.json, or by the model's kind (transformers, auto/tokenization_auto.py). Empty: the
/// folder says neither, as OpenAI's own do.
std::string class_of(const Json& config, const TokenizerFiles& files) {
  std::string name = text_of(config, "tokenizer_class");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (!name.empty() && name != "PreTrainedTokenizer") return name;
  const std::string* model = files.find(model_file);
  const std::string kind =
      model != nullptr ? text_of(Json::parse(*model, (files.folder / model_file).string()), "model_type") : "";
  constexpr std::array<std::string_view, 6> of_gpt2 = {"gpt2", "gpt_neo", "gptj", "codegen", "phi", "starcoder2"};
  if (kind.starts_with("qwen2") || kind.starts_with("qwen3")) return "Qwen2Tokenizer";
  if (kind.empty() || std::ranges::find(of_gpt2, kind) != of_gpt2.end()) return "";
  return "tokenizer of " + kind;
}

/// The tokens of a tokenizer.json, to which others are added.
class Tokens {
 public:
  explicit Tokens(Json& json) : json_(json), vocabulary_(&json.at("model").at("vocab")) {
    if (const Json* added = json.find("added_tokens"); added != nullptr && added->is_array()) added_ = added->array();
    for (const Json& token : added_) next_ = std::max(next_, token.at("id").integer() + 1);
  }
  /// As tokenizers' AddedVocabulary does it: a token of the vocabulary keeps its id, and another one gets the next that is free.
  void add(const Json& token, bool new_ones) {
    const std::string content = token.is_string() ? token.string() : text_of(token, "content");
    if (content.empty() || added_id(content)) return;
    const std::optional<std::int64_t> known = vocabulary_id(content);
    if (!known && !new_ones) return;
    const bool special = says(token, "special", token.is_string()) || !new_ones;
    const std::int64_t id = known.value_or(std::max(next_, size()));
    next_ = std::max(next_, id + 1);
    added_.emplace_back(Json::Object{{"id", id},
                                     {"content", content},
                                     {"single_word", says(token, "single_word")},
                                     {"lstrip", says(token, "lstrip")},
                                     {"rstrip", says(token, "rstrip")},
                                     {"normalized", says(token, "normalized", !special)},
                                     {"special", special}});
    changed_ = true;
  }
  /// Adds tokens in the order of their ids. Those that are new get the next ones.
  void add_in_order(std::vector<std::pair<std::int64_t, Json>> listed) {
    std::ranges::stable_sort(listed, {}, &std::pair<std::int64_t, Json>::first);
    for (const auto& [id, token] : listed) add(token, true);
  }
  std::optional<std::int64_t> id_of(std::string_view content) const {
    const std::optional<std::int64_t> added = added_id(content);
    return added ? added : vocabulary_id(content);
  }
  void keep() {
    if (changed_) json_.set("added_tokens", std::move(added_));
  }

 private:
  std::optional<std::int64_t> added_id(std::string_view content) const {
    const auto found = std::ranges::find_if(added_, [&](const Json& one) { return text_of(one, "content") == content; });
    return found != added_.end() ? std::optional(found->at("id").integer()) : std::nullopt;
  }
  std::optional<std::int64_t> vocabulary_id(std::string_view content) const {
    if (vocabulary_->is_object()) {
      const Json* id = vocabulary_->find(content);
      return id != nullptr ? std::optional(id->integer()) : std::nullopt;
    }
    const Json::Array& pieces = vocabulary_->array();
    const auto found = std::ranges::find_if(pieces, [&](const Json& piece) { return piece.array().at(0).string() == content; });
    return found != pieces.end() ? std::optional<std::int64_t>(found - pieces.begin()) : std::nullopt;
  }
  std::int64_t size() const {
    return vocabulary_->is_object() ? std::ssize(vocabulary_->object()) : std::ssize(vocabulary_->array());
  }

  Json& json_;
  const Json* vocabulary_;
  Json::Array added_;
  std::int64_t next_ = 0;
  bool changed_ = false;
};

/// Adds what `config` has beside tokenizer.json, in transformers' order. Tokens without an id there are taken where the
/// vocabulary has them: a model has no row for a token that is new.
void complete(Json& json, const Json& config) {
  Tokens tokens(json);
  std::vector<std::pair<std::int64_t, Json>> listed;
  if (const Json* all = config.find("added_tokens_decoder"); all != nullptr && all->is_object()) {
    for (const auto& [id, token] : all->object()) listed.emplace_back(number_from<std::int64_t>(id).value_or(0), token);
  }
  tokens.add_in_order(std::move(listed));
  for (const auto& [name, token] : config.object()) {
    if (name.ends_with("_token")) tokens.add(token, false);
  }
  for (const char* list : {"extra_special_tokens", "additional_special_tokens", "model_specific_special_tokens"}) {
    const Json* more = config.find(list);
    if (more == nullptr) continue;
    if (more->is_array()) {
      for (const Json& token : more->array()) tokens.add(token, false);
    } else if (more->is_object()) {
      for (const auto& [name, token] : more->object()) tokens.add(token, false);
    }
  }
  tokens.keep();
}

/// The first of these files that is there; without a name: none is.
bpe::TextOfFile first_of(const TokenizerFiles& files, const std::array<const char*, 2>& names) {
  for (const char* name : names) {
    if (const std::string* text = files.find(name)) return {(files.folder / name).string(), *text};
  }
  return {};
}

Json from_two_files(const TokenizerFiles& files, const Json& config) {
  const std::string name = class_of(config, files), folder = files.folder.string();
  const bool qwen = name == "Qwen2Tokenizer", prefix = says(config, "add_prefix_space");
  if (!name.empty() && name != "GPT2Tokenizer" && !qwen) {
    throw UserError(fmt::format("{} has vocab.json and merges.txt of a {}, but no tokenizer.json", folder, visible(name)),
                    fmt::format("make one: python3 -c 'from transformers import AutoTokenizer as A; "
                                "A.from_pretrained(\"{0}\").save_pretrained(\"{0}\")'",
                                folder));
  }
  Json json = bpe::to_json(bpe::model_of_gpt2(first_of(files, vocabularies), first_of(files, merges)));
  json.set("pre_tokenizer", bpe::pre_tokenizer_json(qwen ? bpe::Pattern::qwen2 : bpe::Pattern::gpt2, prefix));
  if (qwen) json.set("normalizer", Json::Object{{"type", "NFC"}});
  if (const std::string* added = files.find(added_file)) {
    Tokens tokens(json);
    const Json more = Json::parse(*added, (files.folder / added_file).string());
    std::vector<std::pair<std::int64_t, Json>> listed;
    for (const auto& [content, id] : more.object()) listed.emplace_back(id.integer(), Json::Object{{"content", content}});
    tokens.add_in_order(std::move(listed));
    tokens.keep();
  }
  complete(json, config);
  if (says(config, "add_bos_token")) {
    const std::string token = text_of(Json(tokens_of(config)), "bos_token");
    const std::string start = token.empty() ? std::string(bpe::gpt2_end_of_text) : token;
    if (const auto id = Tokens(json).id_of(start)) json.set("post_processor", bpe::begins_with_json(start, *id));
  }
  return json;
}

Json from_whole_file(const std::string& text, const io::Path& file, const Json& config) {
  Json json = Json::parse(text, file.string());
  const Json* model = json.is_object() ? json.find("model") : nullptr;
  const Json* vocabulary = model != nullptr && model->is_object() ? model->find("vocab") : nullptr;
  // What else is wrong with the file is told by its reader.
  if (vocabulary != nullptr && (vocabulary->is_object() || vocabulary->is_array())) complete(json, config);
  return json;
}

}  // namespace

TokenizerFiles read_tokenizer_files(const io::Path& folder) {
  TokenizerFiles files{.folder = folder, .texts = {}, .config = texts_of(folder)};
  for (const char* name : {whole_file, added_file, model_file, vocabularies[0], vocabularies[1], merges[0], merges[1]}) {
    const bool whole = files.find(whole_file) != nullptr;  // which needs none of the others
    if (!whole && io::exists(folder / name)) files.texts[name] = io::read_document(folder / name, bpe::most_file_bytes);
  }
  return files;
}

std::optional<Json> tokenizer_json_of(const TokenizerFiles& files) {
  if (const std::string* text = files.find(whole_file))
    return from_whole_file(*text, files.folder / whole_file, config_of(files.config));
  if (first_of(files, vocabularies).name.empty() || first_of(files, merges).name.empty()) return std::nullopt;
  return from_two_files(files, config_of(files.config));
}

Json tokenizer_json_at(const io::Path& file) {
  return from_whole_file(io::read_document(file, bpe::most_file_bytes), file, config_of(texts_of(io::folder_of(file))));
}

}  // namespace lockstep::data
