#pragma once

// A JSON value with ordered keys. Parsing and printing are nlohmann-json's (json.cpp); this header keeps it out of ours.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  struct LongInteger {
    double near = 0;
  };

  Json() : value_(nullptr) {}
  Json(std::nullptr_t) : value_(nullptr) {}
  Json(bool b) : value_(b) {}
  Json(int i) : value_(static_cast<std::int64_t>(i)) {}
  Json(std::int64_t i) : value_(i) {}
  Json(std::uint64_t u) : value_(static_cast<std::int64_t>(u)) {}
  Json(double d) : value_(d) {}
  Json(LongInteger i) : value_(i) {}
  Json(const char* s) : value_(std::string(s)) {}
  Json(std::string s) : value_(std::move(s)) {}
  Json(std::string_view s) : value_(std::string(s)) {}
  Json(Array a) : value_(std::move(a)) {}
  Json(Object o) : value_(std::move(o)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_int() || is_long_integer() || std::holds_alternative<double>(value_); }
  /// Whether it was read as an integer beyond 64 bits: number() is the nearest one that it knows.
  bool is_long_integer() const { return std::holds_alternative<LongInteger>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Typed access; throws UserError naming the expected type when it is another one.
  bool boolean() const;
  std::int64_t integer() const;
  double number() const;
  const std::string& string() const;
  const Array& array() const;
  const Object& object() const;

  /// Member of an object, or null when absent. Throws UserError when this is not an object.
  const Json* find(std::string_view key) const;
  /// Member of an object; throws UserError naming the key when absent.
  const Json& at(std::string_view key) const;
  /// Sets (or replaces) a member; a null value becomes an object first.
  Json& set(std::string key, Json value);

  /// indent < 0: one line. Non-finite numbers print as null.
  std::string dump(int indent = -1) const;
  /// Throws UserError with `what` (a file name) and the place of the fault. It also refuses a text whose values would take much
  /// more memory than the text.
  static Json parse(std::string_view text, std::string_view what = "JSON");
  /// Calls take(key, value) for each member of the object that `text` is, as soon as it is read. So one member at a time is in
  /// memory. A fault in the text is thrown after the members before it were taken.
  static void for_each_member(std::string_view text, std::string_view what,
                              const std::function<void(const std::string&, const Json&)>& take);

 private:
  std::variant<std::nullptr_t, bool, std::int64_t, double, LongInteger, std::string, Array, Object> value_;
};

}  // namespace lockstep
