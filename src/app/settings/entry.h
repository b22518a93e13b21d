#pragma once

// For the files that list settings: an entry of the table from one member of one group of RunConfig.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "app/settings/choices.h"
#include "app/settings/keys.h"

namespace lockstep::settings {

/// How ranks share the work and what each keeps; the keys of one rank's run stand in keys.cpp.
std::vector<Key> parallel_keys();
std::vector<Key> memory_keys();

inline constexpr OnResume fixed = OnResume::must_equal, loose = OnResume::may_change, learns = OnResume::changes_learning;
inline constexpr double kMany = 1e15;  // beyond any sensible value; integers below it are exact as doubles

template <class T>
struct Plain {
  using type = T;
  static constexpr bool nullable = false;
};
template <class T>
struct Plain<std::optional<T>> {
  using type = T;
  static constexpr bool nullable = true;
};

template <class T>
constexpr Type type_of() {
  if constexpr (IsChoice<T> || HasForm<T>) return Type::text;
  if constexpr (std::is_same_v<T, bool>) return Type::boolean;
  if constexpr (std::is_same_v<T, std::int64_t>) return Type::integer;
  if constexpr (std::is_same_v<T, double>) return Type::number;
  if constexpr (std::is_same_v<T, std::string>) return Type::text;
}

template <class T>
T unpacked(const Json& value) {
  if constexpr (IsChoice<T>) return choice_from<T>(value.string()).value();  // the rule has been kept
  if constexpr (HasForm<T>) return Form<T>::read(value.string()).value();
  if constexpr (std::is_same_v<T, bool>) return value.boolean();
  if constexpr (std::is_same_v<T, std::int64_t>) return value.integer();
  if constexpr (std::is_same_v<T, double>) return value.number();
  if constexpr (std::is_same_v<T, std::string>) return value.string();
}

template <class T>
Json packed(const T& value) {
  if constexpr (IsChoice<T>) {
    return Json(word_of(value));
  } else if constexpr (HasForm<T>) {
    return Json(Form<T>::print(value));
  } else {
    return Json(value);
  }
}

/// What the type of a value asks of it, beside `rule`.
template <class T>
Rule with_rule_of(Rule rule) {
  if constexpr (IsChoice<T>) rule.words = words_of<T>();
  if constexpr (HasForm<T>) {
    rule.readable = [](std::string_view text) { return Form<T>::read(text).has_value(); };
    rule.form = Form<T>::rule;
    rule.form_remedy = Form<T>::remedy;
  }
  return rule;
}

/// The entry of one member of one group.
template <auto kGroup, auto kMember>
Key key(std::string_view name, Rule rule, OnResume mark, std::string_view unit, std::string_view meaning,
        bool in_wordplay = false) {
  using Member = std::remove_cvref_t<decltype(std::declval<app::RunConfig>().*kGroup.*kMember)>;
  using Value = typename Plain<Member>::type;
  constexpr bool kNullable = Plain<Member>::nullable;
  const auto get = [](const app::RunConfig& config) -> Json {
    const Member& member = config.*kGroup.*kMember;
    if constexpr (kNullable) {
      return member ? packed(*member) : Json();
    } else {
      return packed(member);
    }
  };
  const auto set = [](app::RunConfig& config, const Json& value) {
    Member& member = config.*kGroup.*kMember;
    if constexpr (kNullable) {
      if (value.is_null()) {
        member.reset();
        return;
      }
    }
    member = unpacked<Value>(value);
  };
  return {name, type_of<Value>(), kNullable, with_rule_of<Value>(std::move(rule)), mark, unit, meaning, in_wordplay, get, set};
}

}  // namespace lockstep::settings
