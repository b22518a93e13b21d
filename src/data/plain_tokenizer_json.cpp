#include "data/plain_tokenizer_json.h"

#include <optional>
#include <string>
#include <utility>

#include "base/text/utf8.h"
#include "data/bpe/byte_alphabet.h"
#include "data/bpe/tokenizer_json.h"

namespace lockstep::data {
namespace {

constexpr std::string_view each_character = "[\\s\\S]";

Json split_json() {
  return Json::Object{
      {"type", "Split"}, {"pattern", Json::Object{{"Regex", each_character}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json level_json() { return bpe::byte_level_json(false); }

Json file_of(Json pre_tokenizer, Json decoder, Json model) {
  return Json::Object{{"version", "1.0"},          {"truncation", nullptr},
                      {"padding", nullptr},        {"added_tokens", Json::Array{}},
                      {"normalizer", nullptr},     {"pre_tokenizer", std::move(pre_tokenizer)},
                      {"post_processor", nullptr}, {"decoder", std::move(decoder)},
                      {"model", std::move(model)}};
}

// A member that may be absent or of any type.
const Json& member(const Json& json, std::string_view key) {
  static const Json none;
  const Json* value = json.is_object() ? json.find(key) : nullptr;
  return value == nullptr ? none : *value;
}

bool is(const Json& value, std::string_view text) { return value.is_string() && value.string() == text; }
bool is_empty(const Json& value) { return value.is_null() || (value.is_array() && value.array().empty()); }

bool has_members(const Json& json, const Json& expected) {
  for (const auto& [key, value] : expected.object()) {
    if (member(json, key).dump() != value.dump()) return false;
  }
  return true;
}

std::optional<std::string> characters_of(const Json& vocabulary) {
  std::string characters;
  std::int64_t count = 0;
  char32_t last = 0;
  for (const auto& [token, id] : vocabulary.object()) {
    const CodePoint point = token.empty() ? CodePoint{} : code_point_at(token, 0);
    if (point.length == 0 || point.length != token.size() || (count > 0 && point.value <= last)) return std::nullopt;
    if (!id.is_int() || id.integer() != count++) return std::nullopt;
    last = point.value;
    characters += token;
  }
  if (characters.empty()) return std::nullopt;
  return characters;
}

bool has_every_byte(const Json& vocabulary) {
  if (vocabulary.object().size() != 256) return false;
  for (const auto& [token, id] : vocabulary.object()) {
    const std::optional<std::string> byte = bpe::from_alphabet(token);
    if (!byte || byte->size() != 1 || !id.is_int() || id.integer() != static_cast<unsigned char>(byte->front())) return false;
  }
  return true;
}

}  // namespace

Json char_tokenizer_json(std::string_view characters) {
  Json::Object vocabulary;
  for (std::size_t at = 0; at < characters.size();) {
    const std::size_t length = code_point_at(characters, at).length;
    vocabulary.emplace_back(std::string(characters.substr(at, length)), std::ssize(vocabulary));
    at += length;
  }
  // No word is empty, so the one that stands for unknown words is missing, and they are an error.
  return file_of(split_json(), Json::Object{{"type", "Fuse"}},
                 Json::Object{{"type", "WordLevel"}, {"vocab", std::move(vocabulary)}, {"unk_token", ""}});
}

Json byte_tokenizer_json() {
  Json::Object vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.emplace_back(bpe::to_alphabet(std::string(1, static_cast<char>(static_cast<unsigned char>(byte)))), byte);
  }
  return file_of(level_json(), level_json(), bpe::bpe_json(std::move(vocabulary), {}, false));
}

std::unique_ptr<Tokenizer> plain_tokenizer(const Json& json) {
  const Json &model = member(json, "model"), &vocabulary = member(model, "vocab"), &before = member(json, "pre_tokenizer");
  if (!vocabulary.is_object() || !is_empty(member(json, "normalizer")) || !is_empty(member(json, "added_tokens"))) return nullptr;
  if (!is_empty(member(json, "post_processor"))) return nullptr;  // which may put tokens before a text
  if (is(member(model, "type"), "WordLevel") && has_members(before, split_json()) && is(member(model, "unk_token"), "")) {
    if (std::optional<std::string> characters = characters_of(vocabulary)) return make_char_tokenizer(std::move(*characters));
  }
  const bool whole = is(member(model, "type"), "BPE") && has_members(before, level_json()) && is_empty(member(model, "merges"));
  return whole && has_every_byte(vocabulary) ? make_byte_tokenizer() : nullptr;
}

}  // namespace lockstep::data
