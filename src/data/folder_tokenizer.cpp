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

std::string text_of_token(const Json& token) { return token.is_string() ? token.string() : text_of(token, "content"); }

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
  /// `special`: what holds where the token does not say. `again`: one that is added already gets these flags.
  void add(const Json& token, bool special, bool again = false) {
    const std::string content = text_of_token(token);
    const auto known = added(content);
    if (content.empty() || (known != added_.end() && !again)) return;
    const std::int64_t id =
        known != added_.end() ? known->at("id").integer() : vocabulary_id(content).value_or(std::max(next_, size()));
    next_ = std::max(next_, id + 1);
    Json one(Json::Object{{"id", id},
                          {"content", content},
                          {"single_word", says(token, "single_word")},
                          {"lstrip", says(token, "lstrip")},
                          {"rstrip", says(token, "rstrip")},
                          {"normalized", says(token, "normalized", !says(token, "special", special))},
                          {"special", says(token, "special", special)}});
    if (known != added_.end() && known->dump() == one.dump()) return;
    changed_ = true;
    if (known == added_.end()) return added_.push_back(std::move(one));
    *known = std::move(one);
  }
  /// Adds tokens in the order of their ids. Those that are new get the next ones.
  void add_in_order(std::vector<std::pair<std::int64_t, Json>> listed) {
    std::ranges::stable_sort(listed, {}, &std::pair<std::int64_t, Json>::first);
    for (const auto& [id, token] : listed) add(token, false, true);
  }
  std::optional<std::int64_t> id_of(std::string_view content) {
    const auto known = added(content);
    return known != added_.end() ? std::optional(known->at("id").integer()) : vocabulary_id(content);
  }
  void keep() {
    if (changed_) json_.set("added_tokens", std::move(added_));
  }

 private:
  Json::Array::iterator added(std::string_view content) {
    return std::ranges::find_if(added_, [&](const Json& one) { return text_of(one, "content") == content; });
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

/// "bos_token" and its like, in transformers' order; then tokens of the model's own.
std::vector<Json> named_tokens(const Json& config) {
  constexpr std::array<const char*, 7> first{"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};
  std::vector<Json> named;
  for (const char* name : first) {
    if (const Json* token = config.find(name)) named.push_back(*token);
  }
  for (const auto& [name, token] : config.object()) {
    if (name.ends_with("_token") && std::ranges::find(first, name) == first.end()) named.push_back(token);
  }
  for (const char* own : {"extra_special_tokens", "model_specific_special_tokens"}) {
    const Json* more = config.find(own);
    if (more == nullptr || !more->is_object()) continue;
    for (const auto& [name, token] : more->object()) named.push_back(token);
  }
  return named;
}

/// The list of more special tokens. Its old name counts where the new one lists none.
Json::Array more_tokens(const Json& config) {
  for (const char* name : {"extra_special_tokens", "additional_special_tokens"}) {
    const Json* list = config.find(name);
    if (list != nullptr && list->is_array() && !list->array().empty()) return list->array();
  }
  return {};
}

/// Adds what `config` and an older model's added_tokens.json have beside tokenizer.json, in transformers' order.
void complete(Json& json, const Json& config, const TokenizerFiles& files) {
  if (says(config, "split_special_tokens")) {
    throw UserError(fmt::format("{}: \"split_special_tokens\" is true, but special tokens are no text here",
                                (files.folder / ModelTexts::config).string()),
                    "set it to false, or leave it out");
  }
  Tokens tokens(json);
  const std::vector<Json> named = named_tokens(config);
  const Json::Array more = more_tokens(config);
  const auto has = [](const std::vector<Json>& list, std::string_view content) {
    return std::ranges::find(list, content, text_of_token) != list.end();
  };
  std::vector<std::pair<std::int64_t, Json>> listed;
  if (const Json* all = config.find("added_tokens_decoder"); all != nullptr && all->is_object()) {
    for (const auto& [id, token] : all->object()) {
      listed.emplace_back(number_from<std::int64_t>(id).value_or(0), token);
      if (token.is_object() && has(named, text_of_token(token))) listed.back().second.set("special", true);
    }
  } else if (const std::string* old = files.find(added_file)) {
    const Json ids = Json::parse(*old, (files.folder / added_file).string());
    for (const auto& [content, id] : ids.object()) {
      const bool special = has(named, content) || has(more, content);
      listed.emplace_back(id.integer(), Json::Object{{"content", content}, {"special", special}});
    }
  }
  tokens.add_in_order(std::move(listed));
  for (const Json& token : named) tokens.add(token, true);
  for (const Json& token : more) tokens.add(token, token.is_string());
  tokens.keep();
}

/// Whether a blank is put before a text: classes of transformers with a ByteLevel of their own take it from their configuration.
void set_prefix(Json& json, const Json& config) {
  std::string name = text_of(config, "tokenizer_class");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const Json *prefix = config.find("add_prefix_space"), *splits = json.find("pre_tokenizer");
  if ((name != "GPT2Tokenizer" && name != "Qwen2Tokenizer") || splits == nullptr || prefix == nullptr || !prefix->is_bool())
    return;
  Json whole = *splits;
  const auto set = [&](Json& part) {
    if (text_of(part, "type") == "ByteLevel") part.set("add_prefix_space", *prefix);
  };
  set(whole);
  if (const Json* parts = whole.is_object() ? whole.find("pretokenizers") : nullptr; parts != nullptr && parts->is_array()) {
    Json::Array all = parts->array();
    std::ranges::for_each(all, set);
    whole.set("pretokenizers", std::move(all));
  }
  json.set("pre_tokenizer", std::move(whole));
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
                    make_tokenizer_json(folder));
  }
  Json json = bpe::to_json(bpe::model_of_gpt2(first_of(files, vocabularies), first_of(files, merges)));
  json.set("pre_tokenizer", bpe::pre_tokenizer_json(qwen ? bpe::Pattern::qwen2 : bpe::Pattern::gpt2, prefix));
  if (qwen) json.set("normalizer", Json::Object{{"type", "NFC"}});
  complete(json, config, files);
  if (says(config, "add_bos_token")) {
    const std::string token = text_of(Json(tokens_of(config)), "bos_token");
    const std::string start = token.empty() ? std::string(bpe::gpt2_end_of_text) : token;
    if (const auto id = Tokens(json).id_of(start)) json.set("post_processor", bpe::begins_with_json(start, *id));
  }
  return json;
}

Json from_whole_file(const std::string& text, const io::Path& file, const TokenizerFiles& files) {
  Json json = Json::parse(text, file.string());
  const Json* model = json.is_object() ? json.find("model") : nullptr;
  const Json* vocabulary = model != nullptr && model->is_object() ? model->find("vocab") : nullptr;
  // What else is wrong with the file is told by its reader.
  if (vocabulary == nullptr || (!vocabulary->is_object() && !vocabulary->is_array())) return json;
  const Json config = config_of(files.config);
  complete(json, config, files);
  set_prefix(json, config);
  return json;
}

TokenizerFiles files_beside(const io::Path& folder) {
  TokenizerFiles files{.folder = folder, .texts = {}, .config = texts_of(folder)};
  files.read(added_file);
  return files;
}

}  // namespace

void TokenizerFiles::read(const char* name) {
  if (io::exists(folder / name)) texts[name] = io::read_document(folder / name, bpe::most_file_bytes);
}

TokenizerFiles read_tokenizer_files(const io::Path& folder) {
  TokenizerFiles files = files_beside(folder);
  files.read(whole_file);
  if (files.find(whole_file) != nullptr) return files;  // which needs none of the others
  for (const char* name : {model_file, vocabularies[0], vocabularies[1], merges[0], merges[1]}) files.read(name);
  return files;
}

std::optional<Json> tokenizer_json_of(const TokenizerFiles& files) {
  if (const std::string* text = files.find(whole_file)) return from_whole_file(*text, files.folder / whole_file, files);
  if (first_of(files, vocabularies).name.empty() || first_of(files, merges).name.empty()) return std::nullopt;
  return from_two_files(files, config_of(files.config));
}

std::string make_tokenizer_json(const std::string& folder) {
  return fmt::format(
      "make one: python3 -c 'from transformers import AutoTokenizer as A; "
      "A.from_pretrained(\"{0}\").save_pretrained(\"{0}\")'",
      folder);
}

Json tokenizer_json_at(const io::Path& file) {
  return from_whole_file(io::read_document(file, bpe::most_file_bytes), file, files_beside(io::folder_of(file)));
}

}  // namespace lockstep::data
