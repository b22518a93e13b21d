#include "data/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/byte_alphabet.h"
#include "data/bpe/tokenizer_json.h"
#include "data/gguf_sentencepiece.h"

namespace lockstep::data {
namespace {

constexpr const char *model_key = "tokenizer.ggml.model", *pre_key = "tokenizer.ggml.pre", *tokens_key = "tokenizer.ggml.tokens",
                     *types_key = "tokenizer.ggml.token_type", *merges_key = "tokenizer.ggml.merges",
                     *scores_key = "tokenizer.ggml.scores", *blank_key = "tokenizer.ggml.add_space_prefix";
constexpr std::string_view byte_level_bpe = "gpt2";

constexpr const char* incomplete = "give a complete GGUF file";

using gguf_token::control, gguf_token::normal, gguf_token::unused, gguf_token::user;

/// How llama.cpp splits a text into words (llama_vocab::impl::load). The first row of a kind is written.
struct Splitting {
  std::string_view name;
  bpe::Pattern pattern;
  bool whole_words = false;
  bool nfc = false;  ///< the models' own tokenizers have it; llama.cpp takes texts as they are
};
constexpr std::array<Splitting, 7> splittings{{{"gpt-2", bpe::Pattern::gpt2},
                                               {"llama-bpe", bpe::Pattern::llama3, true},
                                               {"llama3", bpe::Pattern::llama3, true},
                                               {"llama-v3", bpe::Pattern::llama3, true},
                                               {"smaug-bpe", bpe::Pattern::llama3},
                                               {"dbrx", bpe::Pattern::llama3},
                                               {"qwen2", bpe::Pattern::qwen2, false, true}}};

[[noreturn]] void refuse_to_write() {
  throw UserError("llama.cpp has no tokenizer that splits as this one does",
                  "write a Hugging Face folder: leave .gguf out of its name");
}

struct Lists {
  Json::Array tokens, types, merges;
  std::string_view pre;
};

/// The steps of a part of a tokenizer.json, one or a Sequence of them.
Json::Array steps_of(const Json& json, const char* part, const char* list) {
  const Json* value = json.find(part);
  if (value == nullptr || value->is_null()) return {};
  return value->at("type").string() == "Sequence" ? value->at(list).array() : Json::Array{*value};
}

bool says(const Json& step, const char* key, bool usual) {
  const Json* value = step.find(key);
  return value != nullptr && value->is_bool() ? value->boolean() : usual;
}

/// Whether each match of a Split is a word: the patterns here leave nothing between them.
bool keeps_matches(const Json& split) {
  const std::string& behavior = split.at("behavior").string();
  return behavior == "Isolated" || (behavior == "Removed" && says(split, "invert", false));
}

/// What a tokenizer.json splits texts by; nothing for what llama.cpp does not do.
std::optional<bpe::Pattern> pattern_of(const Json& json) {
  for (const Json& step : steps_of(json, "normalizer", "normalizers")) {
    if (step.at("type").string() != "NFC") return std::nullopt;
  }
  std::optional<bpe::Pattern> pattern;
  bool bytes = false;
  for (const Json& step : steps_of(json, "pre_tokenizer", "pretokenizers")) {
    const std::string& type = step.at("type").string();
    const Json* regex = type == "Split" ? step.at("pattern").find("Regex") : nullptr;
    if (regex != nullptr && !pattern && !bytes && keeps_matches(step)) {
      pattern = bpe::pattern_of(regex->string());
      if (!pattern) return std::nullopt;
    } else if (type == "ByteLevel" && !bytes && !says(step, "add_prefix_space", true)) {
      bytes = true;
      const bool words = says(step, "use_regex", true);
      if (words && pattern.value_or(bpe::Pattern::gpt2) != bpe::Pattern::gpt2) return std::nullopt;
      if (words) pattern = bpe::Pattern::gpt2;
    } else {
      return std::nullopt;
    }
  }
  return bytes ? pattern : std::nullopt;
}

Lists lists_of_bpe(const Json& json, const Tokenizer& tokenizer) {
  const Json& model = json.at("model");
  const std::optional<bpe::Pattern> pattern = pattern_of(json);
  const bool whole_words = says(model, "ignore_merges", false);
  const auto* const splitting = std::ranges::find_if(
      splittings, [&](const Splitting& one) { return one.pattern == pattern && one.whole_words == whole_words; });
  if (splitting == splittings.end()) refuse_to_write();
  Lists lists;
  lists.pre = splitting->name;
  lists.tokens.resize(static_cast<std::size_t>(tokenizer.vocabulary()));
  lists.types.resize(lists.tokens.size(), unused);
  const auto set = [&](std::int64_t id, const std::string& text, std::int64_t type) {
    lists.tokens.at(static_cast<std::size_t>(id)) = text;
    lists.types.at(static_cast<std::size_t>(id)) = type;
  };
  for (const auto& [text, id] : model.at("vocab").object()) set(id.integer(), text, normal);
  if (const Json* added = json.find("added_tokens"); added != nullptr && added->is_array()) {
    for (const Json& token : added->array())
      set(token.at("id").integer(), token.at("content").string(), says(token, "special", false) ? control : user);
  }
  for (const Json& merge : model.at("merges").array()) {
    if (merge.is_array()) lists.merges.emplace_back(merge.array()[0].string() + " " + merge.array()[1].string());
    if (merge.is_string() && !merge.string().starts_with("#version")) lists.merges.push_back(merge);
  }
  return lists;
}

/// The lists of a tokenizer of characters or bytes. llama.cpp puts a character together from its bytes: merges need not be of
/// tokens.
Lists lists_of_characters(const Tokenizer& tokenizer) {
  Lists lists;
  lists.pre = splittings.front().name;
  for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    for (std::size_t at = 1; at < bytes.size(); ++at)
      lists.merges.emplace_back(bpe::to_alphabet(bytes.substr(0, at)) + " " + bpe::to_alphabet(bytes.substr(at, 1)));
    lists.tokens.emplace_back(bpe::to_alphabet(bytes));
    lists.types.emplace_back(normal);
  }
  return lists;
}

const Json::Array& list_at(const Json& pairs, const char* key, const std::string& what) {
  const Json* value = pairs.find(key);
  if (value != nullptr && value->is_array()) return value->array();
  throw UserError(fmt::format("{}: \"{}\" is missing or no list", what, key), incomplete);
}

/// The post-processor of a tokenizer.json with which texts begin with a token; null where they do not. `usual_id`: what llama.cpp
/// takes where a file names no token (llama_vocab::impl::load).
Json begin_of(const Json& pairs, const Json::Array& tokens, bool usual, std::int64_t usual_id) {
  const auto is_token = [&](std::int64_t id) { return id >= 0 && id < std::ssize(tokens); };
  const Json* const said = pairs.find("tokenizer.ggml.bos_token_id");
  const std::int64_t id = said != nullptr && said->is_int() && is_token(said->integer()) ? said->integer() : usual_id;
  if (!says(pairs, "tokenizer.ggml.add_bos_token", usual) || !is_token(id)) return {};
  return bpe::begins_with_json(tokens[static_cast<std::size_t>(id)].string(), id);
}

/// A tokenizer of characters, where each token is one and they are in order; else null.
std::unique_ptr<Tokenizer> characters_of(const Json::Array& tokens, const Json::Array& types) {
  std::string all;
  char32_t last = 0;
  for (std::size_t id = 0; id < tokens.size() && types[id].integer() != unused; ++id) {
    const std::string bytes = bpe::from_alphabet(tokens[id].string()).value_or("");
    const CodePoint one = bytes.empty() ? CodePoint{} : code_point_at(bytes, 0);
    if (one.length == 0 || one.length != bytes.size() || (id > 0 && one.value <= last)) return nullptr;
    last = one.value;
    all += bytes;
  }
  return all.empty() ? nullptr : make_char_tokenizer(std::move(all));
}

/// The lists of tokens and of their types, as long.
std::pair<const Json::Array&, const Json::Array&> tokens_of(const Json& pairs, const std::string& what) {
  const Json::Array &tokens = list_at(pairs, tokens_key, what), &types = list_at(pairs, types_key, what);
  if (tokens.size() == types.size()) return {tokens, types};
  throw UserError(
      fmt::format("{}: \"{}\" has {} and \"{}\" {} elements", what, tokens_key, tokens.size(), types_key, types.size()),
      incomplete);
}

/// Without keys llama.cpp puts a blank before a text, and <s>.
std::unique_ptr<Tokenizer> sentencepiece_of(const Json& pairs, const std::string& what) {
  constexpr std::int64_t usual_begin = 1;
  const auto [tokens, types] = tokens_of(pairs, what);
  const SentencePieceLists lists{
      .tokens = tokens, .types = types, .scores = list_at(pairs, scores_key, what), .blank_before = says(pairs, blank_key, true)};
  const Json json = sentencepiece_json(lists, begin_of(pairs, tokens, true, usual_begin), what);
  return bpe::make_bpe_tokenizer(bpe::model_from_json(json, what), json.dump(), bpe::AddedTokens::found);
}

std::string text_at(const Json& pairs, const char* key) {
  const Json* value = pairs.find(key);
  return value != nullptr && value->is_string() ? value->string() : "";
}

/// llama.cpp finds tokens by their text, so that those that no text has need one each.
void name_unused(Json::Array& tokens, const Json::Array& types) {
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (types[id].integer() == unused) tokens[id] = fmt::format("[PAD{}]", id);
  }
}

}  // namespace

Json gguf_of_tokenizer(const Tokenizer& tokenizer, std::int64_t vocabulary) {
  const bool bpe = tokenizer.name() == "bpe";
  if (!bpe && tokenizer.name() != "char" && tokenizer.name() != "byte") refuse_to_write();
  if (tokenizer.vocabulary() > vocabulary) {
    throw UserError(fmt::format("the tokenizer has {} tokens, and the model knows {}", tokenizer.vocabulary(), vocabulary),
                    "take the tokenizer that the model was trained with");
  }
  const Json json = bpe ? Json::parse(tokenizer.tokenizer_json(), "tokenizer.json") : Json();
  if (auto lists = bpe ? sentencepiece_lists(json, vocabulary) : std::nullopt) {
    name_unused(lists->tokens, lists->types);
    return Json::Object{{model_key, sentencepiece_model},       {pre_key, "default"},
                        {tokens_key, std::move(lists->tokens)}, {scores_key, std::move(lists->scores)},
                        {types_key, std::move(lists->types)},   {blank_key, lists->blank_before}};
  }
  Lists lists = bpe ? lists_of_bpe(json, tokenizer) : lists_of_characters(tokenizer);
  lists.tokens.resize(static_cast<std::size_t>(vocabulary));
  lists.types.resize(static_cast<std::size_t>(vocabulary), unused);
  name_unused(lists.tokens, lists.types);
  return Json::Object{{model_key, byte_level_bpe},
                      {pre_key, lists.pre},
                      {tokens_key, std::move(lists.tokens)},
                      {types_key, std::move(lists.types)},
                      {merges_key, std::move(lists.merges)}};
}

std::vector<std::string> lost_in_gguf(const Tokenizer& tokenizer) {
  std::vector<std::string> lost;
  if (tokenizer.name() != "bpe") return lost;
  const Json json = Json::parse(tokenizer.tokenizer_json(), "tokenizer.json");
  std::vector<std::string> tokens;
  const Json* added = json.find("added_tokens");
  for (const Json& token : added != nullptr && added->is_array() ? added->array() : Json::Array{}) {
    const bool plain = !says(token, "lstrip", false) && !says(token, "rstrip", false) && !says(token, "single_word", false);
    if (!plain) tokens.push_back(token.at("content").dump());
  }
  if (!tokens.empty())
    lost.push_back(fmt::format("llama.cpp obeys no lstrip, rstrip or single_word of added tokens: texts with {}{} differ",
                               tokens.front(), tokens.size() > 1 ? fmt::format(" and {} more", tokens.size() - 1) : ""));
  for (const Json& step : steps_of(json, "normalizer", "normalizers")) {
    if (step.at("type").string() == "NFC")
      lost.emplace_back(
          "llama.cpp brings no text into Unicode's form C, as the tokenizer does: ids of texts in another form differ");
  }
  if (tokenizer.begin_of_text().size() > 1)
    lost.emplace_back("llama.cpp begins texts with one token, and the tokenizer with several: the first is written");
  for (const Json& step : steps_of(json, "post_processor", "processors")) {
    const Json* pieces = step.find("single");
    const bool ends = pieces != nullptr ? !pieces->array().empty() && pieces->array().back().find("SpecialToken") != nullptr
                                        : step.find("sep") != nullptr;
    if (ends) lost.emplace_back("the tokenizer ends texts with a token, which is not written");
  }
  return lost;
}

std::unique_ptr<Tokenizer> tokenizer_of_gguf(const Json& pairs, const std::string& what) {
  constexpr std::int64_t usual_begin = 11;
  if (says(pairs, "tokenizer.ggml.add_eos_token", false)) {
    throw UserError(fmt::format("{}: its tokenizer ends each text with a token (\"tokenizer.ggml.add_eos_token\")", what),
                    "use a file without it");
  }
  const std::string kind = text_at(pairs, model_key), pre = text_at(pairs, pre_key);
  if (kind == sentencepiece_model) return sentencepiece_of(pairs, what);
  const auto* const splitting = std::ranges::find(splittings, pre, &Splitting::name);
  if (kind != byte_level_bpe || splitting == splittings.end()) {
    throw UserError(fmt::format("{}: its tokenizer, \"{}\" of kind \"{}\", is not supported", what, pre, kind),
                    "read are SentencePiece's BPEs, and byte-level ones that split as GPT-2's, Llama 3's or Qwen2's");
  }
  const auto [tokens, types] = tokens_of(pairs, what);
  if (std::unique_ptr<Tokenizer> characters = characters_of(tokens, types)) return characters;
  Json::Object vocabulary;
  Json::Array added;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    const std::int64_t type = types[i].integer();
    if (type != unused) vocabulary.emplace_back(tokens[i].string(), id);
    if (type != control && type != user) continue;
    added.emplace_back(Json::Object{{"id", id}, {"content", tokens[i]}, {"special", type == control}});
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) added.back().set(key, false);
  }
  const Json json(
      Json::Object{{"version", "1.0"},
                   {"added_tokens", std::move(added)},
                   {"normalizer", splitting->nfc ? Json(Json::Object{{"type", "NFC"}}) : Json()},
                   {"pre_tokenizer", bpe::pre_tokenizer_json(splitting->pattern)},
                   {"post_processor", begin_of(pairs, tokens, splitting->whole_words, usual_begin)},
                   {"decoder", bpe::byte_level_json(true)},
                   {"model", bpe::bpe_json(std::move(vocabulary), list_at(pairs, merges_key, what), splitting->whole_words)}});
  return bpe::make_bpe_tokenizer(bpe::model_from_json(json, what), json.dump(), bpe::AddedTokens::found);
}

}  // namespace lockstep::data
