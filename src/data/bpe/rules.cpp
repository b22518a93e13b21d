#include "data/bpe/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace lockstep::data::bpe {
namespace {

constexpr const char* other_tokenizer = "use a tokenizer.json of a BPE or a Unigram (docs/tokenizers.md says what is read)";

// More than any published file has.
constexpr std::size_t most_parts = 16;

std::string named(std::string_view part, const Json& json) { return fmt::format("its {} \"{}\"", part, type_of(json)); }

// The parts of a Sequence and of those in it, or the one part.
void add_parts(const Json& json, std::string_view key, std::vector<const Json*>& parts, const std::string& what) {
  if (parts.size() == most_parts) refuse(what, fmt::format("it has more than {} {}", most_parts, key));
  if (type_of(json) != "Sequence") return parts.push_back(&json);
  check_keys(json, what, "Sequence", {key});
  for (const Json& part : json.at(key).array()) add_parts(part, key, parts, what);
}
std::vector<const Json*> parts_of(const Json& tokenizer, std::string_view member_key, std::string_view key,
                                  const std::string& what) {
  std::vector<const Json*> parts;
  if (const Json* json = member(tokenizer, member_key)) add_parts(*json, key, parts, what);
  return parts;
}

// {"String": text} or {"Regex": pattern}.
struct Sought {
  std::string literal;  // empty: a pattern
  std::string pattern;
};
Sought sought(const Json& part, const std::string& what) {
  const Json& pattern = part.at("pattern");
  check_keys(pattern, what, "pattern", {"String", "Regex"});
  if (const Json* regex = member(pattern, "Regex")) return {"", regex->string()};
  const std::string& literal = pattern.at("String").string();
  if (literal.empty()) refuse(what, fmt::format("its {} looks for an empty text", type_of(part)));
  return {literal, pattern::quoted(literal)};
}

std::shared_ptr<const pattern::Regex> regex(std::string_view pattern, const std::string& what) {
  try {
    return std::make_shared<const pattern::Regex>(pattern);
  } catch (const UserError& error) {
    refuse(what, error.problems().front().message);
  }
}

Behavior behavior_of(const Json& part, const std::string& what) {
  const Json* json = member(part, "behavior");
  if (json == nullptr) return Behavior::isolated;
  constexpr std::array<std::string_view, 5> names{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto found = std::ranges::find(names, json->string());
  if (found == names.end())
    refuse(what, fmt::format("{} has the unknown behavior \"{}\"", named("pre-tokenizer", part), json->string()));
  return static_cast<Behavior>(found - names.begin());
}

// Rust's idea of a number is Unicode 17's.
constexpr std::string_view numeric = R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";
// Punctuation of its crate unicode_categories: ASCII's, and Unicode's without what came after version 8.
constexpr std::string_view punctuation =
    R"([!-/:-@\[-`{-~\x{166D}\x{111C9}\p{P}&&[^)"
    R"(\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B4E}-\x{1B4F}\x{1B7D}-\x{1B7F}\x{2E43}-\x{2E4F}\x{2E52}-\x{2E5D})"
    R"(\x{10D6E}\x{10EAD}\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{113D4}-\x{113D5}\x{113D7}-\x{113D8})"
    R"(\x{1144B}-\x{1144F}\x{1145A}-\x{1145B}\x{1145D}\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946})"
    R"(\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2}\x{11B00}-\x{11B09}\x{11BE1})"
    R"(\x{11C41}-\x{11C45}\x{11C70}-\x{11C71}\x{11EF7}-\x{11EF8}\x{11F43}-\x{11F4F}\x{11FFF}\x{12FF1}-\x{12FF2})"
    R"(\x{16D6D}-\x{16D6F}\x{16E97}-\x{16E9A}\x{16FE2}\x{1E5FF}\x{1E95E}-\x{1E95F})"
    R"(]])";

// Pre-tokenizers that are a pattern.
struct KnownSplit {
  std::string_view type, pattern;
  Behavior behavior;
};
constexpr std::array<KnownSplit, 5> known_splits{{{"Digits", numeric, Behavior::isolated},
                                                  {"WhitespaceSplit", R"(\s)", Behavior::removed},
                                                  {"BertPreTokenizer", R"(\s)", Behavior::removed},
                                                  {"BertPreTokenizer", punctuation, Behavior::isolated},
                                                  {"Punctuation", punctuation, Behavior::isolated}}};

SplitRule matches(std::string_view pattern, Behavior behavior, bool invert, const std::string& what) {
  return {.kind = SplitRule::Kind::matches, .regex = regex(pattern, what), .behavior = behavior, .invert = invert};
}

void add_byte_level(const Json& part, const std::string& what, std::vector<SplitRule>& rules) {
  check_keys(part, what, "ByteLevel", {"add_prefix_space", "trim_offsets", "use_regex"});
  if (const Json* prefix = member(part, "add_prefix_space"); prefix == nullptr || prefix->boolean()) {
    rules.push_back({.kind = SplitRule::Kind::prefix});
  }
  const Json* splits = member(part, "use_regex");
  if (splits == nullptr || splits->boolean()) rules.push_back({.kind = SplitRule::Kind::words, .pattern = Pattern::gpt2});
  rules.push_back({.kind = SplitRule::Kind::alphabet});
}

SplitRule split(const Json& part, const std::string& what) {
  check_keys(part, what, "Split", {"pattern", "behavior", "invert"});
  const Sought pattern = sought(part, what);
  const Behavior behavior = behavior_of(part, what);
  const bool invert = flag(part, "invert"), all = (behavior == Behavior::removed && invert) || behavior == Behavior::isolated;
  // The patterns that match every character have code of their own.
  if (const auto known = pattern_of(pattern.pattern); known && all) return {.kind = SplitRule::Kind::words, .pattern = *known};
  return matches(pattern.pattern, behavior, invert, what);
}

SplitRule metaspace(const Json& part, const std::string& what) {
  check_keys(part, what, "Metaspace", {"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  SplitRule rule{.kind = SplitRule::Kind::metaspace, .replacement = part.at("replacement").string()};
  using Prepend = SplitRule::Prepend;
  const Json *scheme = member(part, "prepend_scheme"), *split = member(part, "split"), *old = member(part, "add_prefix_space");
  const std::string word = scheme != nullptr ? scheme->string() : old != nullptr && !old->boolean() ? "never" : "always";
  if (word != "always" && word != "first" && word != "never") refuse(what, fmt::format("its Metaspace prepends \"{}\"", word));
  rule.prepend = word == "always" ? Prepend::always : word == "first" ? Prepend::first : Prepend::never;
  rule.splits = split == nullptr || split->boolean();
  if (rule.replacement.empty() || pattern::character_at(rule.replacement, 0).length != rule.replacement.size()) {
    refuse(what, fmt::format("its Metaspace puts \"{}\" in place of blanks, which is no character", rule.replacement));
  }
  return rule;
}

// A decoder's step on each token.
void add_token(const Json& part, const std::string& what, DecodeRule& rule) {
  const std::string type = type_of(part);
  if (type == "Replace" && !rule.byte_fallback) {
    check_keys(part, what, type, {"pattern", "content"});
    const Sought from = sought(part, what);
    if (from.literal.empty()) refuse(what, "its decoder replaces by a pattern, which is not supported");
    rule.replaced.emplace_back(from.literal, part.at("content").string());
  } else if (type == "ByteFallback") {
    check_keys(part, what, type, {});
    rule.byte_fallback = true;
  } else if (type == "Metaspace") {
    const SplitRule space = metaspace(part, what);
    if (space.prepend != SplitRule::Prepend::never) rule.not_first = space.replacement;
    rule.replaced.emplace_back(space.replacement, " ");
  } else {
    refuse(what, fmt::format("its decoder \"{}\" is not supported", type));
  }
}

// A decoder's step on all tokens as one text.
void add_whole_text(const Json& part, const std::string& what, DecodeRule& rule) {
  const std::string type = type_of(part);
  if (type == "Fuse") return check_keys(part, what, type, {});
  if (type != "Strip") refuse(what, fmt::format("its decoder \"{}\" is not supported behind Fuse", type));
  check_keys(part, what, type, {"content", "start", "stop"});
  rule.stripped = part.at("content").string();
  rule.start = part.at("start").integer();
  rule.stop = part.at("stop").integer();
}

// A pre-tokenizer that is a pattern, or several; false: it is none.
bool add_known(const Json& part, const std::string& what, std::vector<SplitRule>& rules) {
  const std::string type = type_of(part);
  bool any = false;
  for (const KnownSplit& known : known_splits) {
    if (known.type != type) continue;
    check_keys(part, what, type, {"behavior", "individual_digits"});
    Behavior behavior = type == "Punctuation" ? behavior_of(part, what) : known.behavior;
    if (type == "Digits") behavior = flag(part, "individual_digits") ? Behavior::isolated : Behavior::contiguous;
    rules.push_back(matches(known.pattern, behavior, false, what));
    any = true;
  }
  return any;
}

}  // namespace

void refuse(const std::string& what, const std::string& reason) {
  throw UserError(fmt::format("{}: {}", what, reason), other_tokenizer);
}

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

void check_keys(const Json& json, const std::string& what, std::string_view part, std::initializer_list<std::string_view> keys) {
  for (const auto& [key, value] : json.object()) {
    if (key != "type" && std::ranges::find(keys, key) == keys.end()) {
      refuse(what, fmt::format("its {} has the key \"{}\", which is not known", part, key));
    }
  }
}

namespace {

// Normalizers without settings.
struct NamedNormalizer {
  std::string_view name;
  NormalRule::Kind kind;
  normal::Form form = normal::Form::c;
};
constexpr std::array<NamedNormalizer, 6> normalizer_names{{{"NFC", NormalRule::Kind::form, normal::Form::c},
                                                           {"NFD", NormalRule::Kind::form, normal::Form::d},
                                                           {"NFKC", NormalRule::Kind::form, normal::Form::kc},
                                                           {"NFKD", NormalRule::Kind::form, normal::Form::kd},
                                                           {"Lowercase", NormalRule::Kind::lower_case},
                                                           {"StripAccents", NormalRule::Kind::accents}}};

}  // namespace

std::vector<NormalRule> normal_rules(const Json& tokenizer, const std::string& what) {
  std::vector<NormalRule> rules;
  for (const Json* part : parts_of(tokenizer, "normalizer", "normalizers", what)) {
    const std::string type = type_of(*part);
    const auto* const known = std::ranges::find(normalizer_names, type, &NamedNormalizer::name);
    if (known != normalizer_names.end()) {
      check_keys(*part, what, type, {});
      rules.push_back({.kind = known->kind, .form = known->form});
    } else if (type == "Precompiled") {
      check_keys(*part, what, type, {"precompiled_charsmap"});
      rules.push_back({.kind = NormalRule::Kind::charsmap,
                       .map = std::make_shared<const normal::Charsmap>(part->at("precompiled_charsmap").string())});
    } else if (type == "Prepend") {
      check_keys(*part, what, type, {"prepend"});
      rules.push_back({.kind = NormalRule::Kind::prepend, .content = part->at("prepend").string()});
    } else if (type == "Replace") {
      check_keys(*part, what, type, {"pattern", "content"});
      const Sought found = sought(*part, what);
      rules.push_back({.kind = NormalRule::Kind::replace,
                       .content = part->at("content").string(),
                       .find = regex(found.pattern, what),
                       .literal = found.literal});
    } else if (type == "Strip") {
      check_keys(*part, what, type, {"strip_left", "strip_right"});
      rules.push_back({.kind = NormalRule::Kind::strip, .left = flag(*part, "strip_left"), .right = flag(*part, "strip_right")});
    } else {
      refuse(what, fmt::format("its normalizer \"{}\" is not supported", type));
    }
  }
  return rules;
}

std::vector<SplitRule> split_rules(const Json& tokenizer, const std::string& what, bool& byte_level) {
  std::vector<SplitRule> rules;
  for (const Json* part : parts_of(tokenizer, "pre_tokenizer", "pretokenizers", what)) {
    const std::string type = type_of(*part);
    if (type == "ByteLevel") {
      if (byte_level) refuse(what, "its pre-tokenizer has two ByteLevel");
      byte_level = true;
      add_byte_level(*part, what, rules);
    } else if (type == "Split") {
      rules.push_back(split(*part, what));
    } else if (type == "Metaspace") {
      const auto is_one = [](const SplitRule& rule) { return rule.kind == SplitRule::Kind::metaspace; };
      if (std::ranges::any_of(rules, is_one)) refuse(what, "its pre-tokenizer has two Metaspace");
      rules.push_back(metaspace(*part, what));
    } else if (!add_known(*part, what, rules)) {
      refuse(what, fmt::format("its pre-tokenizer \"{}\" is not supported", type));
    }
  }
  return rules;
}

DecodeRule decode_rule(const Json& tokenizer, const std::string& what, bool byte_level) {
  DecodeRule rule;
  bool fused = false;
  const std::vector<const Json*> parts = parts_of(tokenizer, "decoder", "decoders", what);
  for (const Json* part : parts) {
    const std::string type = type_of(*part);
    if (byte_level) {
      if (type != "ByteLevel") refuse(what, fmt::format("its decoder \"{}\" is not supported behind bytes", type));
      check_keys(*part, what, type, {"add_prefix_space", "trim_offsets", "use_regex"});
    } else if (type == "ByteLevel") {
      refuse(what, "its decoder is \"ByteLevel\", but its pre-tokenizer is not: its tokens are of another alphabet than texts");
    } else if (fused || type == "Fuse") {
      add_whole_text(*part, what, rule);
      fused = true;
    } else {
      add_token(*part, what, rule);
    }
  }
  if (parts.empty() && !byte_level) {
    refuse(what, "it has no decoder, so tokenizers puts blanks between tokens, which is not supported");
  }
  return rule;
}

std::string DecodeRule::bytes(std::string_view token, bool first) const {
  std::string text(token);
  const auto replace = [&](std::string_view from, std::string_view to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  };
  if (first && !not_first.empty()) replace(not_first, "");
  for (const auto& [from, to] : replaced) replace(from, to);
  if (!byte_fallback || text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return text;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : 256;
  };
  const int byte = 16 * digit(text[3]) + digit(text[4]);
  return byte < 256 ? std::string(1, static_cast<char>(static_cast<unsigned char>(byte))) : text;
}

namespace {

/// The ids that a TemplateProcessing puts before a text, which it has to write once.
std::vector<const Json*> ids_of_template(const Json& part, const std::string& what) {
  std::vector<const Json*> ids;
  int texts = 0;
  for (const Json& piece : part.at("single").array()) {
    check_keys(piece, what, "TemplateProcessing", {"Sequence", "SpecialToken"});
    if (const Json* special = piece.find("SpecialToken")) {
      const Json& token = part.at("special_tokens").at(special->at("id").string());
      for (const Json& id : token.at("ids").array())
        if (texts == 0) ids.push_back(&id);
      continue;
    }
    if (const std::string& id = piece.at("Sequence").at("id").string(); id != "A")
      refuse(what, fmt::format("its TemplateProcessing for one text has the text {}, which is no \"A\"", Json(id).dump()));
    ++texts;
  }
  if (texts != 1)
    refuse(what, fmt::format("its TemplateProcessing writes a text {}", texts == 0 ? "not at all" : "more than once"));
  return ids;
}

}  // namespace

std::vector<std::int32_t> front_rule(const Json& tokenizer, const std::string& what, std::int64_t vocabulary) {
  std::vector<std::int32_t> front;
  const auto add = [&](const Json& id) {
    if (id.integer() < 0 || id.integer() >= vocabulary)
      refuse(what, fmt::format("its post-processor puts {} before a text, which is no token", id.integer()));
    front.push_back(static_cast<std::int32_t>(id.integer()));
  };
  for (const Json* part : parts_of(tokenizer, "post_processor", "processors", what)) {
    const std::string type = type_of(*part);
    if (type == "ByteLevel") {  // offsets alone, which nothing here has
      check_keys(*part, what, type, {"add_prefix_space", "trim_offsets", "use_regex"});
    } else if (type == "TemplateProcessing") {
      check_keys(*part, what, type, {"single", "pair", "special_tokens"});
      for (const Json* id : ids_of_template(*part, what)) add(*id);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      check_keys(*part, what, type, {"sep", "cls", "trim_offsets", "add_prefix_space"});
      add(part->at("cls").array().at(1));
    } else {
      refuse(what, fmt::format("its post-processor \"{}\" is not supported", type));
    }
  }
  return front;
}

}  // namespace lockstep::data::bpe
