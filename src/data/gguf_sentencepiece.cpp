#include "data/gguf_sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/utf8.h"

namespace lockstep::data {
namespace {

constexpr std::string_view blank = "\u2581";

const Json* member(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool flag_of(const Json& json, const char* key, bool usual) {
  const Json* value = member(json, key);
  return value != nullptr ? value->boolean() : usual;
}

/// The parts of a tokenizer.json, one or a Sequence of them.
Json::Array parts_of(const Json& json, const char* part, const char* list) {
  const Json* value = member(json, part);
  if (value == nullptr) return {};
  return value->at("type").string() == "Sequence" ? value->at(list).array() : Json::Array{*value};
}

bool finds(const Json& part, std::string_view text) {
  const Json* literal = part.at("pattern").find("String");
  return literal != nullptr && literal->is_string() && literal->string() == text;
}

/// Whether blanks become U+2581 and nothing else happens to a text, and whether one is put before it; nothing for other ways.
std::optional<bool> blank_before(const Json& json, bool words_end) {
  bool replaced = false, before = false;
  for (const Json& part : parts_of(json, "normalizer", "normalizers")) {
    const std::string& type = part.at("type").string();
    const bool puts = type == "Prepend" && part.at("prepend").string() == blank && !before;
    const bool replaces = type == "Replace" && finds(part, " ") && part.at("content").string() == blank;
    if (!puts && !replaces) return std::nullopt;
    before = before || puts;
    replaced = replaced || replaces;
  }
  for (const Json& part : parts_of(json, "pre_tokenizer", "pretokenizers")) {
    const std::string& type = part.at("type").string();
    if (type == "Split" && replaced && finds(part, " ")) continue;  // Gemma's, which finds none
    if (type != "Metaspace" || replaced || part.at("replacement").string() != blank) return std::nullopt;
    // llama.cpp does not split: then no token may reach over a word's end.
    if (flag_of(part, "split", true) && !words_end) return std::nullopt;
    const Json* scheme = member(part, "prepend_scheme");
    before = scheme != nullptr ? scheme->string() != "never" : flag_of(part, "add_prefix_space", true);
    replaced = true;
  }
  return replaced ? std::optional(before) : std::nullopt;
}

struct Pair {
  std::string left, right;
  bool operator==(const Pair&) const = default;
};

Pair pair_of(const Json& merge) {
  if (merge.is_array()) return {merge.array().at(0).string(), merge.array().at(1).string()};
  const std::string& text = merge.string();
  const std::size_t space = text.find(' ');
  return {text.substr(0, space), space == std::string::npos ? "" : text.substr(space + 1)};
}

/// visit(left, right) for every way to cut a text between characters.
template <class Visit>
void for_cuts(std::string_view text, const Visit& visit) {
  for (std::size_t at = 0; at < text.size();) {
    at += std::max<std::size_t>(code_point_at(text, at).length, 1);
    if (at < text.size()) visit(text.substr(0, at), text.substr(at));
  }
}

bool is_character(std::string_view text) { return !text.empty() && code_point_at(text, 0).length == text.size(); }

using Ids = std::unordered_map<std::string_view, std::int64_t>;

/// The rank of the first merge that makes each token. Nothing unless llama.cpp merges the same pairs in the same order. For that
/// the merges of a token must follow one another. Every pair of tokens whose text is a token must be a merge.
std::optional<std::unordered_map<std::string, std::int64_t>> ranks_of(const std::vector<Pair>& merges, const Ids& ids,
                                                                      const std::vector<std::int64_t>& types) {
  std::unordered_map<std::string, std::int64_t> ranks, counts;
  std::string last;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    std::string merged = merges[i].left + merges[i].right;
    const bool first = ranks.emplace(merged, static_cast<std::int64_t>(i)).second;
    if (!first && merged != last) return std::nullopt;
    ++counts[merged];
    last = std::move(merged);
  }
  const auto known = [&](std::string_view text) {
    const auto found = ids.find(text);
    return is_character(text) || (found != ids.end() && types[static_cast<std::size_t>(found->second)] == gguf_token::normal);
  };
  for (const auto& [text, id] : ids) {
    if (types[static_cast<std::size_t>(id)] != gguf_token::normal || is_character(text)) continue;
    std::int64_t cuts = 0;
    for_cuts(text, [&](std::string_view left, std::string_view right) { cuts += known(left) && known(right) ? 1 : 0; });
    const auto count = counts.find(std::string(text));
    if (cuts != (count == counts.end() ? 0 : count->second)) return std::nullopt;
  }
  return ranks;
}

std::string byte_text(int byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace

std::optional<SentencePieceLists> sentencepiece_lists(const Json& tokenizer, std::int64_t vocabulary) {
  const Json& model = tokenizer.at("model");
  if (!flag_of(model, "byte_fallback", false) || flag_of(model, "ignore_merges", false)) return std::nullopt;
  SentencePieceLists lists;
  lists.tokens.resize(static_cast<std::size_t>(vocabulary));
  std::vector<std::int64_t> types(lists.tokens.size(), gguf_token::unused);
  const auto set = [&](const Json& id, const std::string& text, std::int64_t type) {
    const auto place = static_cast<std::size_t>(id.integer());
    lists.tokens.at(place) = text;
    types.at(place) = type;
  };
  for (const auto& [text, id] : model.at("vocab").object()) set(id, text, gguf_token::normal);
  const Json* unknown = member(model, "unk_token");
  const Json* added = member(tokenizer, "added_tokens");
  for (const Json& token : added != nullptr ? added->array() : Json::Array{}) {
    const std::string& text = token.at("content").string();
    set(token.at("id"), text, flag_of(token, "special", false) ? gguf_token::control : gguf_token::user);
  }
  Ids ids;
  for (std::size_t id = 0; id < types.size(); ++id) {
    if (types[id] != gguf_token::unused) ids.emplace(lists.tokens[id].string(), static_cast<std::int64_t>(id));
  }
  const auto mark = [&](const std::string& text, std::int64_t type) {
    const auto found = ids.find(text);
    if (found != ids.end()) types[static_cast<std::size_t>(found->second)] = type;
    return found != ids.end();
  };
  for (int byte = 0; byte < 256; ++byte) {
    if (!mark(byte_text(byte), gguf_token::byte)) return std::nullopt;
  }
  if (unknown != nullptr) static_cast<void>(mark(unknown->string(), gguf_token::unknown));
  std::vector<Pair> merges;
  for (const Json& merge : model.at("merges").array()) merges.push_back(pair_of(merge));
  const bool words_end =
      std::ranges::none_of(merges, [](const Pair& pair) { return (pair.left + pair.right).find(blank, 1) != std::string::npos; });
  const std::optional<bool> before = blank_before(tokenizer, words_end);
  const auto ranks = ranks_of(merges, ids, types);
  if (!before || !ranks) return std::nullopt;
  lists.blank_before = *before;
  for (std::size_t id = 0; id < types.size(); ++id) {
    lists.types.emplace_back(types[id]);
    const auto rank = types[id] == gguf_token::normal ? ranks->find(lists.tokens[id].string()) : ranks->end();
    lists.scores.emplace_back(-static_cast<double>(rank != ranks->end() ? rank->second : std::ssize(merges)));
  }
  return lists;
}

namespace {

/// Every pair of normal tokens whose text is one, by the scores of what they become. Two tokens of one score are refused:
/// llama.cpp then takes the leftmost in a text, but merges have an order.
Json::Array merges_of(const SentencePieceLists& lists, const Ids& normal, const std::string& what) {
  struct Merge {
    double score;
    std::int64_t merged, left, right;
  };
  std::vector<Merge> merges;
  for (const auto& [text, id] : normal) {
    for_cuts(text, [&, merged = id](std::string_view left, std::string_view right) {
      const auto l = normal.find(left), r = normal.find(right);
      if (l == normal.end() || r == normal.end()) return;
      merges.push_back({lists.scores[static_cast<std::size_t>(merged)].number(), merged, l->second, r->second});
    });
  }
  std::ranges::sort(merges, [](const Merge& a, const Merge& b) {
    return a.score != b.score ? a.score > b.score : std::tie(a.merged, a.left, a.right) < std::tie(b.merged, b.left, b.right);
  });
  Json::Array all;
  const auto text = [&](std::int64_t id) { return lists.tokens[static_cast<std::size_t>(id)]; };
  const auto tie = std::ranges::adjacent_find(
      merges, [](const Merge& a, const Merge& b) { return a.score == b.score && a.merged != b.merged; });
  if (tie != merges.end()) {
    throw UserError(fmt::format("{}: its tokens {} and {} have one score, which orders no merges", what, text(tie->merged).dump(),
                                text(std::next(tie)->merged).dump()),
                    "take the tokenizer.json that the model was published with");
  }
  for (const Merge& merge : merges) all.emplace_back(Json::Array{text(merge.left), text(merge.right)});
  return all;
}

Json part(const char* type, std::initializer_list<std::pair<const char*, Json>> members) {
  Json json(Json::Object{{"type", type}});
  for (const auto& [key, value] : members) json.set(key, value);
  return json;
}

Json sought(std::string_view text) { return Json::Object{{"String", text}}; }

}  // namespace

Json sentencepiece_json(const SentencePieceLists& lists, const Json& post_processor, const std::string& what) {
  Json::Object vocabulary;
  Json::Array added;
  Ids normal;
  std::string unknown;
  for (std::size_t i = 0; i < lists.tokens.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    const std::string& text = lists.tokens[i].string();
    const std::int64_t type = lists.types[i].integer();
    if (type == gguf_token::unused) continue;
    vocabulary.emplace_back(text, id);
    if (type == gguf_token::normal) normal.emplace(text, id);
    if (type == gguf_token::unknown) unknown = text;
    if (type == gguf_token::normal || type == gguf_token::byte) continue;
    added.emplace_back(Json::Object{{"id", id}, {"content", text}, {"special", type != gguf_token::user}});
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) added.back().set(key, false);
  }
  if (lists.scores.size() != lists.tokens.size()) {
    throw UserError(fmt::format("{}: it has {} tokens and {} scores", what, lists.tokens.size(), lists.scores.size()),
                    "give a complete GGUF file");
  }
  const auto odd = std::ranges::find_if(lists.scores, [](const Json& score) { return std::isnan(score.number()); });
  if (odd != lists.scores.end()) {
    throw UserError(fmt::format("{}: its token {} has the score nan, which has no place in an order", what,
                                lists.tokens[static_cast<std::size_t>(odd - lists.scores.begin())].dump()),
                    "take the tokenizer.json that the model was published with");
  }
  const Json replace = part("Replace", {{"pattern", sought(" ")}, {"content", blank}});
  Json::Array normalizers,
      decoders{part("Replace", {{"pattern", sought(blank)}, {"content", " "}}), part("ByteFallback", {}), part("Fuse", {})};
  if (lists.blank_before) normalizers.push_back(part("Prepend", {{"prepend", blank}}));
  normalizers.push_back(replace);
  if (lists.blank_before) decoders.push_back(part("Strip", {{"content", " "}, {"start", 1}, {"stop", 0}}));
  return Json::Object{{"version", "1.0"},
                      {"added_tokens", std::move(added)},
                      {"normalizer", part("Sequence", {{"normalizers", std::move(normalizers)}})},
                      {"pre_tokenizer", nullptr},
                      {"post_processor", post_processor},
                      {"decoder", part("Sequence", {{"decoders", std::move(decoders)}})},
                      {"model", part("BPE", {{"dropout", nullptr},
                                             {"unk_token", unknown.empty() ? Json() : Json(unknown)},
                                             {"continuing_subword_prefix", nullptr},
                                             {"end_of_word_suffix", nullptr},
                                             {"fuse_unk", true},
                                             {"byte_fallback", true},
                                             {"ignore_merges", false},
                                             {"vocab", std::move(vocabulary)},
                                             {"merges", merges_of(lists, normal, what)}})}};
}

}  // namespace lockstep::data
