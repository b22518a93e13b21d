#pragma once

// Values of tables: one member of a struct as a Json scalar (null, boolean, integer, number, text), with the rule that it keeps.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/values/choice.h"

namespace lockstep {

inline constexpr double kMany = 1e15;  // beyond any sensible value; integers below it are exact as doubles

enum class ValueType : std::uint8_t { boolean, integer, number, text };

/// What a value must be, beyond its type.
struct ValueRule {
  double low = 0, high = 0;  // bounds of numbers, inclusive unless open
  bool bounded = false, open_low = false, open_high = false;
  std::vector<std::string_view> words;  // the texts that are allowed; empty: any
  /// The number that a text stands for; null for a text that stands for none. A null `named`: no text may be given for a number.
  Json (*named)(std::string_view text) = nullptr;
  std::string_view names = {};  // says what such a text is
  /// Whether a text has the form that is wanted; null: any text has. `form` says what the form is, `form_remedy` what to do about
  /// another text.
  bool (*readable)(std::string_view text) = nullptr;
  std::string_view form = {}, form_remedy = {};

  static ValueRule any() { return {}; }
  static ValueRule between(double low, double high) { return {low, high, true, false, false, {}}; }
  static ValueRule above(double low, double high) { return {low, high, true, true, false, {}}; }
  static ValueRule below(double low, double high) { return {low, high, true, false, true, {}}; }
  static ValueRule or_named(ValueRule numbers, std::string_view names, Json (*named)(std::string_view)) {
    numbers.names = names;
    numbers.named = named;
    return numbers;
  }
  static ValueRule one_of(std::vector<std::string_view> words) { return {0, 0, false, false, false, std::move(words)}; }
};

bool has_type(const Json& value, ValueType type);
/// Whether a value of the right type keeps the rule; its form is another matter.
bool obeys(const Json& value, const ValueRule& rule);

/// A member of an Owner.
template <class Owner>
struct Value {
  ValueType type = ValueType::text;
  bool nullable = false;
  ValueRule rule;
  std::function<Json(const Owner&)> get;
  std::function<void(Owner&, const Json&)> set;  ///< the value has been checked
};

namespace values {

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
constexpr ValueType type_of() {
  if constexpr (IsChoice<T> || HasForm<T>) return ValueType::text;
  if constexpr (std::is_same_v<T, bool>) return ValueType::boolean;
  if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::integer;
  if constexpr (std::is_same_v<T, double>) return ValueType::number;
  if constexpr (std::is_same_v<T, std::string>) return ValueType::text;
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

/// `rule` with what the type of a value asks of it.
template <class T>
ValueRule with_rule_of(ValueRule rule) {
  if constexpr (IsChoice<T>) rule.words = words_of<T>();
  if constexpr (HasForm<T>) {
    rule.readable = [](std::string_view text) { return Form<T>::read(text).has_value(); };
    rule.form = Form<T>::rule;
    rule.form_remedy = Form<T>::remedy;
  }
  return rule;
}

}  // namespace values

/// The member that `member(owner)` refers to, for const owners and others.
template <class Owner, class Member>
Value<Owner> value_of(ValueRule rule, Member member) {
  using Type = std::remove_cvref_t<decltype(member(std::declval<Owner&>()))>;
  using T = typename values::Plain<Type>::type;
  constexpr bool kNullable = values::Plain<Type>::nullable;
  const auto get = [member](const Owner& owner) -> Json {
    const Type& value = member(owner);
    if constexpr (kNullable) {
      return value ? values::packed(*value) : Json();
    } else {
      return values::packed(value);
    }
  };
  const auto set = [member](Owner& owner, const Json& given) {
    Type& value = member(owner);
    if constexpr (kNullable) {
      if (given.is_null()) {
        value.reset();
        return;
      }
    }
    value = values::unpacked<T>(given);
  };
  return {values::type_of<T>(), kNullable, values::with_rule_of<T>(std::move(rule)), get, set};
}

}  // namespace lockstep
