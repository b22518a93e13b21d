#include "arch/huggingface/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/utf8.h"

namespace lockstep::arch::huggingface {
namespace {

constexpr const char* take_published = "take the file that the weights were published with";

/// 1.0 and 1 are one number.
std::string text_of(const Json& value) { return value.is_number() ? fmt::format("{}", value.number()) : value.dump(); }

}  // namespace

std::string shown(const Json& value) {
  constexpr std::size_t most = 80;
  std::string text = text_of(value);
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && is_continuation(text[end])) --end;  // whole characters
  return text.substr(0, end) + "...";
}

bool differs(const Json* value, const OnlyValue& row) {
  return value != nullptr && !value->is_null() && text_of(*value) != row.value;
}

Fields::Fields(const Json& json, std::string_view what, std::string prefix)
    : json_(json), what_(what), prefix_(std::move(prefix)) {}

std::int64_t Fields::size(std::string_view key, std::int64_t most, std::optional<std::int64_t> otherwise) {
  const Json* value = present(key);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr) return missing(key), 1;
  if (!value->is_int() || value->integer() < 1 || value->integer() > most) {
    return wrong(key, *value, fmt::format("a whole number from 1 to {}", most)), 1;
  }
  return value->integer();
}

double Fields::positive(std::string_view key, std::optional<double> otherwise) {
  const Json* value = present(key);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr) return missing(key), 1;
  constexpr double most = 1e30;  // a float holds it
  if (!value->is_number() || !(value->number() > 0 && value->number() <= most))
    return wrong(key, *value, "a number above 0, at most 1e30"), 1;
  return value->number();
}

bool Fields::flag(std::string_view key, bool otherwise) {
  const Json* value = present(key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) return wrong(key, *value, "true or false"), otherwise;
  return value->boolean();
}

std::string Fields::text(std::string_view key, std::string otherwise) {
  const Json* value = present(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) return wrong(key, *value, "a text"), otherwise;
  return value->string();
}

std::vector<std::int64_t> Fields::numbers(std::string_view key) {
  const Json* value = present(key);
  if (value == nullptr) return {};
  const std::span<const Json> all = value->is_array() ? std::span(value->array()) : std::span(value, 1);
  std::vector<std::int64_t> numbers;
  for (const Json& one : all) {
    if (!one.is_int()) return wrong(key, *value, "a whole number or a list of them"), std::vector<std::int64_t>{};
    numbers.push_back(one.integer());
  }
  return numbers;
}

std::vector<double> Fields::positives(std::string_view key) {
  const Json* value = present(key);
  if (value == nullptr) return missing(key), std::vector<double>{};
  std::vector<double> numbers;
  const auto fits = [](const Json& one) { return one.is_number() && one.number() > 0 && one.number() <= 1e30; };
  if (!value->is_array() || !std::ranges::all_of(value->array(), fits))
    return wrong(key, *value, "a list of numbers above 0"), numbers;
  for (const Json& one : value->array()) numbers.push_back(one.number());
  return numbers;
}

std::vector<std::string> Fields::texts(std::string_view key) {
  const Json* value = present(key);
  if (value == nullptr) return {};
  const std::span<const Json> all = value->is_array() ? std::span(value->array()) : std::span(value, 1);
  std::vector<std::string> texts;
  for (const Json& one : all) {
    if (!one.is_string() || one.string().empty())
      return wrong(key, *value, "a text that is not empty, or a list of them"), std::vector<std::string>{};
    texts.push_back(one.string());
  }
  return texts;
}

const Json* Fields::present(std::string_view key) {
  if (!is_known(key)) known_.push_back(key);
  const Json* value = json_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string_view Fields::one_of(std::initializer_list<std::string_view> keys) {
  std::string_view first;
  for (const std::string_view key : keys) {
    const Json* value = present(key);
    if (value == nullptr) continue;
    if (first.empty()) {
      first = key;
    } else if (const Json& said = json_.at(first); text_of(said) != text_of(*value)) {
      refuse(fmt::format("\"{0}{1}\" is {3} and \"{0}{2}\" is {4}, but they are one thing", prefix_, first, key, shown(said),
                         shown(*value)),
             fmt::format("leave the wrong one out; {}", take_published));
    }
  }
  return first.empty() ? *keys.begin() : first;
}

void Fields::refuse(std::string problem, std::string remedy) {
  problems.push_back({fmt::format("{}: {}", what_, problem), std::move(remedy)});
}

void Fields::wrong(std::string_view key, const Json& value, std::string_view rule) {
  refuse(fmt::format("\"{}{}\" is {}, but must be {}", prefix_, key, shown(value), rule), take_published);
}

void Fields::missing(std::string_view key) { refuse(fmt::format("\"{}{}\" is missing", prefix_, key), take_published); }

void Fields::demand(std::span<const OnlyValue> rows) {
  for (const OnlyValue& row : rows) {
    const Json* value = present(row.key);
    if (!differs(value, row)) continue;
    const std::string rule = row.value == "null" ? "absent" : fmt::format("{}", row.value);
    refuse(fmt::format("\"{}{}\" is {}, but must be {}: {}", prefix_, row.key, shown(*value), rule, row.other));
  }
}

void Fields::pass(std::span<const std::string_view> keys) { known_.insert(known_.end(), keys.begin(), keys.end()); }

void Fields::refuse_unknown(std::string_view remedy) {
  constexpr std::size_t most = 20;
  std::size_t found = 0;
  for (const auto& [key, value] : json_.object()) {
    if (is_known(key) || value.is_null() || (value.is_bool() && !value.boolean()) || ++found > most) continue;
    refuse(fmt::format("{} is {}: this key is not known", Json(prefix_ + key).dump(), shown(value)), std::string(remedy));
  }
  if (found > most) refuse(fmt::format("{} more keys are not known", found - most), std::string(remedy));
}

void Fields::take(Fields& inner) {
  for (Problem& problem : inner.problems) problems.push_back(std::move(problem));
  inner.problems.clear();
}

bool Fields::is_known(std::string_view key) const { return std::ranges::find(known_, key) != known_.end(); }

}  // namespace lockstep::arch::huggingface
