// Values of keys: read, checked, shown.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/settings/entry.h"
#include "app/settings/foreign/other_words.h"
#include "app/settings/kept_paths.h"
#include "app/settings/keys.h"
#include "base/number_text.h"
#include "base/text/lower.h"

namespace lockstep::settings {
namespace {

// "lr" of "learning_rate".
std::string first_letters(std::string_view words) {
  std::string letters;
  for (std::size_t at = 0; at < words.size(); at = std::min(words.find('_', at), words.size() - 1) + 1) letters += words[at];
  return letters;
}

std::string range_text(const Rule& rule) {
  std::string low = fmt::format("{} {}", rule.open_low ? "above" : "of at least", rule.low);
  if (rule.high >= kMany) return low;
  const char* const side = rule.open_high ? "below" : "at most";
  if (rule.high < 1) return fmt::format("{} and {} {}", low, side, rule.high);
  return fmt::format("{} and {} {}", low, side, static_cast<std::int64_t>(rule.high));
}

// A word that other systems have where a key has bf16.
bool asks_for_fp16(const Key& key, const std::string& word) {
  const bool knows_bf16 = std::ranges::find(key.rule.words, "bf16") != key.rule.words.end();
  return knows_bf16 && (word == "fp16" || word == "float16" || word == "half");
}

/// Why the key cannot have the value. `typed`: as a command has it; empty: the value is a file's.
Problem refusal(const Key& key, const Json& value, std::string_view typed) {
  std::string remedy = fmt::format("the default is {}", shown(key.get(app::RunConfig())));
  if (!key.rule.words.empty() && value.is_string()) {
    const std::string near = nearest_name(value.string(), {key.rule.words.begin(), key.rule.words.end()});
    if (!near.empty()) remedy = fmt::format("did you mean {}={}?", key.name, near);
    if (asks_for_fp16(key, value.string())) {
      remedy = fmt::format(
          "{}=bf16 has the range of fp32 in as many bytes; in fp16 small gradients are zero without a loss scaler", key.name);
    }
  }
  // Quotes of a file are what is wrong where a number or a switch was meant.
  const bool quoted = typed.empty() && value.is_string() && key.type != Type::text && key.rule.words.empty();
  if (quoted && !value_from_text(key, value.string()).is_string()) remedy = fmt::format("{} without the quotes", value.string());
  const bool too_large = value.is_number() && key.rule.bounded && value.number() > key.rule.high;
  const std::string bound = too_large && key.rule.high >= kMany ? fmt::format(", at most {}", key.rule.high) : "";
  const std::string said = quoted && !value.string().empty() ? value.dump() : typed.empty() ? shown(value) : std::string(typed);
  return Problem{
      fmt::format("{}{}: must be {}{}", key.name, said.empty() ? " has no value" : " = " + said, rule_text(key), bound), remedy};
}

}  // namespace

std::string rule_text(const Key& key) {
  std::string text;
  if (!key.rule.words.empty()) {
    text =
        key.rule.words.size() == 1 ? std::string(key.rule.words[0]) : fmt::format("one of {}", fmt::join(key.rule.words, ", "));
  } else if (key.type == Type::boolean) {
    text = "true or false";
  } else if (key.type == Type::text) {
    text = "a text (not empty)";
  } else {
    text = key.type == Type::integer ? "an integer" : "a number";
    if (key.rule.bounded) text += " " + range_text(key.rule);
  }
  if (key.rule.named != nullptr) text += fmt::format(", or {}", key.rule.names);
  return key.nullable ? text + ", or null" : text;
}

std::string shown(const Json& value) {
  if (value.is_string()) return value.string();
  const bool in_json = !value.is_number() || std::isfinite(value.number());
  return in_json ? value.dump() : fmt::format("{}", value.number());
}

Json value_from_text(const Key& key, std::string_view text) {
  const std::string word = lower(text);
  if (key.nullable && word == "null") return {};
  if (key.type == Type::boolean && (word == "true" || word == "false")) return word == "true";
  if (key.type == Type::integer || key.type == Type::number) {
    if (const auto integer = number_from<std::int64_t>(text)) return *integer;
    const std::optional<double> number = number_from<double>(text);
    constexpr double exact = 1e15;                                                   // a double holds every integer up to it
    const bool in_short = key.type == Type::integer && word.find('e') != word.npos;  // 1e6
    if (number && in_short && std::trunc(*number) == *number && std::abs(*number) <= exact)
      return static_cast<std::int64_t>(*number);
    if (number) return *number;
  }
  return text;
}

std::optional<Problem> assign(app::RunConfig& config, const Key& key, const Json& given, std::string_view typed) {
  Json value = given;
  if (key.nullable && value.is_string() && value.string() == "null") value = nullptr;  // TOML has no null
  if (key.rule.named != nullptr && value.is_string()) {
    if (Json meant = key.rule.named(value.string()); !meant.is_null()) value = std::move(meant);
  }
  if (value.is_string()) value = meant_path(key, value.string());
  const bool absent = value.is_null() && key.nullable;
  if (absent || (has_type(value, key.type) && obeys(value, key.rule))) {
    if (!absent && key.rule.readable != nullptr && !key.rule.readable(value.string()))
      return Problem{fmt::format("{} = {}: must be {}", key.name, value.string(), key.rule.form),
                     std::string(key.rule.form_remedy)};
    key.set(config, value);
    return std::nullopt;
  }
  return refusal(key, value, typed);
}

std::string nearest_key(std::string_view name) {
  const std::size_t dot = name.find('.');
  const std::string_view group = dot == name.npos ? "" : name.substr(0, dot), option = name.substr(name.rfind('.') + 1);
  const bool known = std::ranges::find(groups(), group, &Group::name) != groups().end();
  const bool whole = !group.empty() && !known;  // a setting of an unknown group is near by its group, too
  std::vector<std::string> names, compared;
  for (const Key& key : keys()) {
    if (key.option() == option) return std::string(key.name);
    if (known && key.group() != group) continue;
    names.emplace_back(key.name);
    compared.emplace_back(whole ? key.name : key.option());
  }
  const auto found = std::ranges::find(compared, nearest_name(whole ? name : option, compared));
  if (found == compared.end()) return "";
  const std::string near = names[static_cast<std::size_t>(found - compared.begin())];
  return nearest_name(option, {near.substr(near.find('.') + 1)}).empty() ? "" : near;
}

Problem unknown_key(std::string_view name) {
  if (const auto right = app::right_setting(name)) return {fmt::format("unknown setting {}", name), "here it is " + *right};
  const std::string near = nearest_key(name);
  if (!near.empty()) return {fmt::format("unknown setting {}", name), fmt::format("did you mean {}?", near)};
  const std::string_view option = name.substr(name.find('.') + 1);
  std::vector<std::string_view> like;  // it is a part of, or the first letters of the words of
  for (const Key& key : keys()) {
    const bool part = option.size() > 1 && key.option().find(option) != std::string_view::npos;
    if (part || first_letters(key.option()) == option) like.push_back(key.name);
  }
  return {fmt::format("unknown setting {}", name), like.empty() || like.size() > 5
                                                       ? "lockstep help config lists them"
                                                       : fmt::format("did you mean {}?", fmt::join(like, " or "))};
}

}  // namespace lockstep::settings
