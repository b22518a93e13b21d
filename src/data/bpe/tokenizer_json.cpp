#include "data/bpe/tokenizer_json.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "data/bpe/byte_alphabet.h"
#include "data/bpe/rules.h"

namespace lockstep::data::bpe {
namespace {

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
  if (type == "Unigram") return check_keys(model, what, "model", {"unk_id", "vocab", "byte_fallback"});
  // Files from before the type was written are BPE when they have merges.
  if (type != "BPE" && !(type.empty() && member(model, "merges") != nullptr)) {
    refuse(what, fmt::format("its model is {}, which is not supported", type.empty() ? "of no known type" : type));
  }
  check_keys(model, what, "model",
             {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
              "ignore_merges", "vocab", "merges"});
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json* text = member(model, key);
    if (text != nullptr && !text->string().empty()) refuse(what, fmt::format("its \"{}\" is not supported", key));
  }
  const Json* dropout = member(model, "dropout");
  if (dropout != nullptr && dropout->number() != 0) refuse(what, "its BPE drops merges at random, which is not supported");
}

void read_added(const Json& json, ModelBuilder& builder) {
  builder.added(json.at("id").integer(), {.content = json.at("content").string(),
                                          .special = flag(json, "special"),
                                          .normalized = flag(json, "normalized"),
                                          .single_word = flag(json, "single_word"),
                                          .lstrip = flag(json, "lstrip"),
                                          .rstrip = flag(json, "rstrip")});
}

// [["token", score], ...]
std::vector<double> read_scores(const Json& vocabulary, const std::string& what, ModelBuilder& builder) {
  std::vector<double> scores;
  for (const Json& entry : vocabulary.array()) {
    if (entry.array().size() != 2) refuse(what, fmt::format("the entry {} is not a token and its score", entry.dump()));
    builder.token(entry.array()[0].string(), std::ssize(scores));
    scores.push_back(entry.array()[1].number());
  }
  if (scores.empty()) refuse(what, "its vocabulary is empty");
  return scores;
}

Model parsed(const Json& json, const std::string& what) {
  const Json* model = json.is_object() ? member(json, "model") : nullptr;
  if (model == nullptr) refuse(what, "this is no tokenizer.json: it has no \"model\"");
  check_model(*model, what);
  check_keys(
      json, what, "object",
      {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
  bool byte_level = false;
  std::vector<NormalRule> normalizer = normal_rules(json, what);
  std::vector<SplitRule> splits = split_rules(json, what, byte_level);
  const Json& vocabulary = model->at("vocab");
  const Json* added = member(json, "added_tokens");
  const bool unigram = type_of(*model) == "Unigram";
  if (unigram && byte_level) refuse(what, "its Unigram is one of bytes, which is not supported");
  const std::size_t size = unigram ? vocabulary.array().size() : vocabulary.object().size();
  ModelBuilder builder(what, size + (added != nullptr ? added->array().size() : 0), byte_level);
  std::vector<double> scores;
  if (unigram) {
    scores = read_scores(vocabulary, what, builder);
  } else {
    for (const auto& [token, id] : vocabulary.object()) builder.token(token, id.integer());
    for (const Json& merge : model->at("merges").array()) read_merge(merge, what, builder);
  }
  if (added != nullptr) {
    for (const Json& token : added->array()) read_added(token, builder);
  }
  Model result = builder.take(flag(*model, "byte_fallback"));
  if (const Json* unknown = member(*model, "unk_token"); unknown != nullptr && !byte_level) {
    result.unknown = builder.id_of(unknown->string(), "unk_token");
    result.fuse_unknown = flag(*model, "fuse_unk");
  }
  if (const Json* unknown = member(*model, "unk_id"); unknown != nullptr) {
    if (unknown->integer() < 0 || unknown->integer() >= std::ssize(scores))
      refuse(what, "its unk_id is no token of its vocabulary");
    result.unknown = static_cast<std::int32_t>(unknown->integer());
  }
  result.scores = std::move(scores);
  result.decoder = decode_rule(json, what, byte_level);
  result.front = front_rule(json, what, std::ssize(result.tokens));
  result.normalizer = std::move(normalizer);
  result.splits = std::move(splits);
  result.whole_words = flag(*model, "ignore_merges");
  return result;
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

Json byte_level_json(bool use_regex, bool prefix) {
  return Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json pre_tokenizer_json(Pattern pattern, bool prefix) {
  if (pattern == Pattern::gpt2) return byte_level_json(true, prefix);
  Json split(Json::Object{
      {"type", "Split"}, {"pattern", Json::Object{{"Regex", regex_of(pattern)}}}, {"behavior", "Isolated"}, {"invert", false}});
  return Json::Object{{"type", "Sequence"}, {"pretokenizers", Json::Array{std::move(split), byte_level_json(false, prefix)}}};
}

Json begins_with_json(const std::string& token, std::int64_t id) {
  const Json first(Json::Object{{"SpecialToken", Json::Object{{"id", token}, {"type_id", 0}}}});
  const auto sequence = [](const char* name) {
    return Json(Json::Object{{"Sequence", Json::Object{{"id", name}, {"type_id", 0}}}});
  };
  const Json entry(Json::Object{{"id", token}, {"ids", Json::Array{id}}, {"tokens", Json::Array{token}}});
  return Json::Object{{"type", "TemplateProcessing"},
                      {"single", Json::Array{first, sequence("A")}},
                      {"pair", Json::Array{first, sequence("A"), first, sequence("B")}},
                      {"special_tokens", Json::Object{{token, entry}}}};
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
                      {"normalizer", !model.normalizer.empty() ? Json(Json::Object{{"type", "NFC"}}) : Json()},
                      {"pre_tokenizer", pre_tokenizer_json(model.only_pattern().value_or(Pattern::gpt2))},
                      {"post_processor", nullptr},
                      {"decoder", byte_level_json(true)},
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
