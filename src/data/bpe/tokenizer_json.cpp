#include "data/bpe/tokenizer_json.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/bpe/byte_alphabet.h"

namespace lockstep::data::bpe {
namespace {

constexpr const char* remedy = "use the tokenizer.json of a byte-level BPE such as GPT-2's, Llama 3's or Qwen2's";

[[noreturn]] void refuse(const std::string& what, const std::string& reason) {
  throw UserError(fmt::format("{}: {}", what, reason), remedy);
}

// A member that may be absent or null.
const Json* member(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool flag(const Json& json, std::string_view key) {
  const Json* value = member(json, key);
  return value != nullptr && value->boolean();
}

std::string type_of(const Json& json) {
  const Json* type = member(json, "type");
  return type == nullptr ? "" : type->string();
}

// The parts of a Sequence, or the one part.
Json::Array parts_of(const Json& json, std::string_view key) {
  return type_of(json) == "Sequence" ? json.at(key).array() : Json::Array{json};
}

bool normalises(const Json& json, const std::string& what) {
  const Json* normalizer = member(json, "normalizer");
  if (normalizer == nullptr) return false;
  bool nfc = false;
  for (const Json& part : parts_of(*normalizer, "normalizers")) {
    if (type_of(part) != "NFC") refuse(what, fmt::format("its normalizer \"{}\" is not supported, only NFC", type_of(part)));
    nfc = true;
  }
  return nfc;
}

Pattern split_pattern(const Json& split, const std::string& what) {
  const Json& pattern = split.at("pattern");
  const Json* regex = pattern.is_object() ? member(pattern, "Regex") : nullptr;
  const std::string text = regex != nullptr ? regex->string() : pattern.dump();
  const std::optional<Pattern> known = pattern_of(text);
  if (!known) refuse(what, fmt::format("its pre-tokenizer splits by a pattern that is not known: {}", text));
  if (split.at("behavior").string() != "Isolated" || flag(split, "invert")) {
    refuse(what, fmt::format("its pre-tokenizer splits with behavior \"{}\", not \"Isolated\"", split.at("behavior").string()));
  }
  return *known;
}

Pattern words_of(const Json& json, const std::string& what) {
  const Json* pre_tokenizer = member(json, "pre_tokenizer");
  if (pre_tokenizer == nullptr) refuse(what, "it has no pre-tokenizer, so its BPE is not one of bytes");
  std::optional<Pattern> pattern;
  bool bytes = false;
  for (const Json& part : parts_of(*pre_tokenizer, "pretokenizers")) {
    const std::string type = type_of(part);
    if (type == "Split" && !pattern && !bytes) {
      pattern = split_pattern(part, what);
    } else if (type == "ByteLevel" && !bytes) {
      bytes = true;
      if (flag(part, "add_prefix_space")) refuse(what, "its pre-tokenizer adds a space before a text, which is not supported");
      const Json* regex = member(part, "use_regex");
      if (regex != nullptr && !regex->boolean()) continue;
      if (pattern) refuse(what, "its pre-tokenizer splits twice, which is not supported");
      pattern = Pattern::gpt2;
    } else {
      refuse(what, fmt::format("its pre-tokenizer \"{}\" is not supported here", type));
    }
  }
  if (!bytes) refuse(what, "its pre-tokenizer is not ByteLevel, so its BPE is not one of bytes");
  if (!pattern) refuse(what, "its pre-tokenizer does not split a text into words");
  return *pattern;
}

void read_merge(const Json& merge, const std::string& what, ModelBuilder& builder) {
  if (merge.is_array() && merge.array().size() == 2) return builder.merge(merge.array()[0].string(), merge.array()[1].string());
  const std::string text = merge.is_string() ? merge.string() : merge.dump();
  if (text.starts_with("#version")) return;  // as merges.txt has it; tokenizers passes over it here too
  const std::size_t space = text.find(' ');
  if (!merge.is_string() || space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    refuse(what, fmt::format("the merge {} is not a pair of tokens", text));
  }
  builder.merge(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1));
}

void check_model(const Json& model, const std::string& what) {
  const std::string type = type_of(model);
  // Files from before the type was written are BPE when they have merges.
  if (type != "BPE" && !(type.empty() && member(model, "merges") != nullptr)) {
    refuse(what, fmt::format("its model is {}, which is not supported", type.empty() ? "of no known type" : type));
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json* text = member(model, key);
    if (text != nullptr && !text->string().empty()) refuse(what, fmt::format("its \"{}\" is not supported", key));
  }
  const Json* dropout = member(model, "dropout");
  if (dropout != nullptr && dropout->number() != 0) refuse(what, "its BPE drops merges at random, which is not supported");
  if (flag(model, "byte_fallback")) refuse(what, "its BPE falls back to bytes (as SentencePiece's), which is not supported");
}

void read_added(const Json& json, ModelBuilder& builder) {
  builder.added(json.at("id").integer(), {.content = json.at("content").string(),
                                          .special = flag(json, "special"),
                                          .normalized = flag(json, "normalized"),
                                          .single_word = flag(json, "single_word"),
                                          .lstrip = flag(json, "lstrip"),
                                          .rstrip = flag(json, "rstrip")});
}

Model parsed(const Json& json, const std::string& what) {
  const Json* model = json.is_object() ? member(json, "model") : nullptr;
  if (model == nullptr) refuse(what, "this is no tokenizer.json: it has no \"model\"");
  check_model(*model, what);
  const bool nfc = normalises(json, what);
  const Pattern pattern = words_of(json, what);
  const Json::Object& vocabulary = model->at("vocab").object();
  const Json* added = member(json, "added_tokens");
  ModelBuilder builder(what, vocabulary.size() + (added != nullptr ? added->array().size() : 0));
  for (const auto& [token, id] : vocabulary) builder.token(token, id.integer());
  for (const Json& merge : model->at("merges").array()) read_merge(merge, what, builder);
  if (added != nullptr) {
    for (const Json& token : added->array()) read_added(token, builder);
  }
  Model result = builder.take();
  result.pattern = pattern;
  result.nfc = nfc;
  result.whole_words = flag(*model, "ignore_merges");
  return result;
}

Json byte_level(bool use_regex) {
  return Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json pre_tokenizer_json(Pattern pattern) {
  if (pattern == Pattern::gpt2) return byte_level(true);
  Json split(Json::Object{
      {"type", "Split"}, {"pattern", Json::Object{{"Regex", regex_of(pattern)}}}, {"behavior", "Isolated"}, {"invert", false}});
  return Json::Object{{"type", "Sequence"}, {"pretokenizers", Json::Array{std::move(split), byte_level(false)}}};
}

Json model_json(const Model& model) {
  std::map<std::int32_t, std::string_view> added;
  for (const AddedToken& token : model.added) added.emplace(token.id, token.content);
  std::vector<std::string> texts;
  Json::Object vocab;
  for (std::size_t id = 0; id < model.tokens.size(); ++id) {
    const auto content = added.find(static_cast<std::int32_t>(id));
    texts.push_back(content != added.end() ? std::string(content->second) : to_alphabet(model.tokens[id]));
    if (!texts.back().empty()) vocab.emplace_back(texts.back(), static_cast<std::int64_t>(id));
  }
  Json::Array merges;
  for (const Merge& merge : model.merges) {
    merges.emplace_back(texts[static_cast<std::size_t>(merge.left)] + " " + texts[static_cast<std::size_t>(merge.right)]);
  }
  return bpe_json(std::move(vocab), std::move(merges), model.whole_words);
}

}  // namespace

Model model_from_json(const Json& json, const std::string& what) {
  try {
    return parsed(json, what);
  } catch (const UserError& error) {
    const Problem& problem = error.problems().front();
    if (problem.message.starts_with(what)) throw;
    refuse(what, problem.message);  // a member's name or type
  }
}

Json to_json(const Model& model) {
  Json::Array added;
  for (const AddedToken& token : model.added) {
    added.emplace_back(Json::Object{{"id", static_cast<std::int64_t>(token.id)},
                                    {"content", token.content},
                                    {"single_word", token.single_word},
                                    {"lstrip", token.lstrip},
                                    {"rstrip", token.rstrip},
                                    {"normalized", token.normalized},
                                    {"special", token.special}});
  }
  return Json::Object{{"version", "1.0"},
                      {"truncation", nullptr},
                      {"padding", nullptr},
                      {"added_tokens", std::move(added)},
                      {"normalizer", model.nfc ? Json(Json::Object{{"type", "NFC"}}) : Json()},
                      {"pre_tokenizer", pre_tokenizer_json(model.pattern)},
                      {"post_processor", nullptr},
                      {"decoder", byte_level(true)},
                      {"model", model_json(model)}};
}

Json bpe_json(Json::Object vocabulary, Json::Array merges, bool ignore_merges) {
  return Json::Object{{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", ignore_merges},
                      {"vocab", std::move(vocabulary)},
                      {"merges", std::move(merges)}};
}

}  // namespace lockstep::data::bpe
