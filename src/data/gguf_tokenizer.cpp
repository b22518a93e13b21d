#include "data/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/byte_alphabet.h"
#include "data/bpe/tokenizer_json.h"

namespace lockstep::data {
namespace {

constexpr const char *model_key = "tokenizer.ggml.model", *pre_key = "tokenizer.ggml.pre", *tokens_key = "tokenizer.ggml.tokens",
                     *types_key = "tokenizer.ggml.token_type", *merges_key = "tokenizer.ggml.merges";
constexpr std::string_view byte_level_bpe = "gpt2";

constexpr const char* incomplete = "give a complete GGUF file";

/// gguf-py's TokenType.
constexpr std::int64_t normal_token = 1, control_token = 3, user_token = 4, unused_token = 5;

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

struct Lists {
  Json::Array tokens, types, merges;
  std::string_view pre;
};

Lists lists_of_bpe(const Tokenizer& tokenizer) {
  const bpe::Model model = bpe::model_from_json(Json::parse(tokenizer.tokenizer_json(), "tokenizer.json"), "tokenizer.json");
  const auto* const splitting = std::ranges::find_if(
      splittings, [&](const Splitting& one) { return one.pattern == model.pattern && one.whole_words == model.whole_words; });
  if (splitting == splittings.end()) {
    throw UserError(fmt::format("llama.cpp has no tokenizer that splits as this one: {}, words that are tokens {}",
                                bpe::regex_of(model.pattern), model.whole_words ? "whole" : "merged"),
                    "write a Hugging Face folder: leave .gguf out of its name");
  }
  Lists lists;
  lists.pre = splitting->name;
  std::vector<std::string> texts;
  for (const std::string& bytes : model.tokens) {
    texts.push_back(bpe::to_alphabet(bytes));
    lists.types.emplace_back(bytes.empty() ? unused_token : normal_token);
  }
  for (const bpe::AddedToken& token : model.added) {
    const auto id = static_cast<std::size_t>(token.id);
    texts[id] = token.content;
    lists.types[id] = token.special ? control_token : user_token;
  }
  for (const bpe::Merge& merge : model.merges) {
    lists.merges.emplace_back(texts[static_cast<std::size_t>(merge.left)] + " " + texts[static_cast<std::size_t>(merge.right)]);
  }
  lists.tokens.assign(texts.begin(), texts.end());
  return lists;
}

/// Of characters and bytes. llama.cpp puts a character together from its bytes: merges need not be of tokens.
Lists lists_of_characters(const Tokenizer& tokenizer) {
  Lists lists;
  lists.pre = splittings.front().name;
  for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    for (std::size_t at = 1; at < bytes.size(); ++at)
      lists.merges.emplace_back(bpe::to_alphabet(bytes.substr(0, at)) + " " + bpe::to_alphabet(bytes.substr(at, 1)));
    lists.tokens.emplace_back(bpe::to_alphabet(bytes));
    lists.types.emplace_back(normal_token);
  }
  return lists;
}

const Json::Array& list_at(const Json& pairs, const char* key, const std::string& what) {
  const Json* value = pairs.find(key);
  if (value != nullptr && value->is_array()) return value->array();
  throw UserError(fmt::format("{}: \"{}\" is missing or no list", what, key), incomplete);
}

/// The post-processor of a tokenizer.json with which texts begin with a token; null where they do not.
Json begin_of(const Json& pairs, const Json::Array& tokens, bool usual) {
  const Json *said = pairs.find("tokenizer.ggml.add_bos_token"), *id = pairs.find("tokenizer.ggml.bos_token_id");
  const bool begins = said != nullptr && said->is_bool() ? said->boolean() : usual;
  if (!begins || id == nullptr || !id->is_int() || id->integer() < 0 || id->integer() >= std::ssize(tokens)) return {};
  const std::string& token = tokens[static_cast<std::size_t>(id->integer())].string();
  const Json first(Json::Object{{"SpecialToken", Json::Object{{"id", token}, {"type_id", 0}}}});
  const auto sequence = [](const char* name) {
    return Json(Json::Object{{"Sequence", Json::Object{{"id", name}, {"type_id", 0}}}});
  };
  const Json entry(Json::Object{{"id", token}, {"ids", Json::Array{*id}}, {"tokens", Json::Array{token}}});
  return Json::Object{{"type", "TemplateProcessing"},
                      {"single", Json::Array{first, sequence("A")}},
                      {"pair", Json::Array{first, sequence("A"), first, sequence("B")}},
                      {"special_tokens", Json::Object{{token, entry}}}};
}

/// A tokenizer of characters, where each token is one and they are in order; else null.
std::unique_ptr<Tokenizer> characters_of(const Json::Array& tokens, const Json::Array& types) {
  std::string all;
  char32_t last = 0;
  for (std::size_t id = 0; id < tokens.size() && types[id].integer() != unused_token; ++id) {
    const std::string bytes = bpe::from_alphabet(tokens[id].string()).value_or("");
    const CodePoint one = bytes.empty() ? CodePoint{} : code_point_at(bytes, 0);
    if (one.length == 0 || one.length != bytes.size() || (id > 0 && one.value <= last)) return nullptr;
    last = one.value;
    all += bytes;
  }
  return all.empty() ? nullptr : make_char_tokenizer(std::move(all));
}

std::string text_at(const Json& pairs, const char* key) {
  const Json* value = pairs.find(key);
  return value != nullptr && value->is_string() ? value->string() : "";
}

}  // namespace

Json gguf_of_tokenizer(const Tokenizer& tokenizer, std::int64_t vocabulary) {
  Lists lists = tokenizer.name() == "bpe" ? lists_of_bpe(tokenizer) : lists_of_characters(tokenizer);
  if (std::ssize(lists.tokens) > vocabulary) {
    throw UserError(fmt::format("the tokenizer has {} tokens, and the model knows {}", lists.tokens.size(), vocabulary),
                    "take the tokenizer that the model was trained with");
  }
  lists.tokens.resize(static_cast<std::size_t>(vocabulary));
  lists.types.resize(static_cast<std::size_t>(vocabulary), unused_token);
  // llama.cpp finds tokens by their text, so that those that no text has need one each.
  for (std::size_t id = 0; id < lists.tokens.size(); ++id) {
    if (lists.types[id].integer() == unused_token) lists.tokens[id] = fmt::format("[PAD{}]", id);
  }
  return Json::Object{{model_key, byte_level_bpe},
                      {pre_key, lists.pre},
                      {tokens_key, std::move(lists.tokens)},
                      {types_key, std::move(lists.types)},
                      {merges_key, std::move(lists.merges)}};
}

std::unique_ptr<Tokenizer> tokenizer_of_gguf(const Json& pairs, const std::string& what) {
  const std::string kind = text_at(pairs, model_key), pre = text_at(pairs, pre_key);
  const auto* const splitting = std::ranges::find(splittings, pre, &Splitting::name);
  if (kind != byte_level_bpe || splitting == splittings.end()) {
    throw UserError(fmt::format("{}: its tokenizer, \"{}\" of kind \"{}\", is not supported", what, pre, kind),
                    "read are byte-level BPEs that split as GPT-2's, Llama 3's or Qwen2's");
  }
  const Json::Array &tokens = list_at(pairs, tokens_key, what), &types = list_at(pairs, types_key, what);
  if (tokens.size() != types.size()) {
    throw UserError(
        fmt::format("{}: \"{}\" has {} and \"{}\" {} elements", what, tokens_key, tokens.size(), types_key, types.size()),
        incomplete);
  }
  if (std::unique_ptr<Tokenizer> characters = characters_of(tokens, types)) return characters;
  bpe::ModelBuilder builder(what, tokens.size());
  const auto with_type = [&](auto wanted, const auto& take) {
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (wanted(types[id].integer())) take(tokens[id].string(), static_cast<std::int64_t>(id));
    }
  };
  with_type([](std::int64_t type) { return type != unused_token; },
            [&](const std::string& token, std::int64_t id) { builder.token(token, id); });
  for (const Json& merge : list_at(pairs, merges_key, what)) {
    const std::string& pair = merge.string();
    const std::size_t space = pair.find(' ', 1);
    if (space == std::string::npos)
      throw UserError(fmt::format("{}: the merge \"{}\" is no pair of tokens", what, pair), incomplete);
    builder.merge(std::string_view(pair).substr(0, space), std::string_view(pair).substr(space + 1));
  }
  with_type([](std::int64_t type) { return type == control_token || type == user_token; },
            [&](const std::string& token, std::int64_t id) {
              const bool special = types[static_cast<std::size_t>(id)].integer() == control_token;
              builder.added(id, {.content = token, .special = special});
            });
  bpe::Model model = builder.take();
  model.pattern = splitting->pattern;
  model.whole_words = splitting->whole_words;
  model.nfc = splitting->nfc;
  std::string json = bpe::to_json(model).set("post_processor", begin_of(pairs, tokens, splitting->whole_words)).dump();
  return bpe::make_bpe_tokenizer(std::move(model), std::move(json), bpe::AddedTokens::found);
}

}  // namespace lockstep::data
