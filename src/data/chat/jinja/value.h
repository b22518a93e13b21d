#pragma once

// What a template computes with: values as Python has them. Text is shared. Lists and dicts never change once they are made, and
// live as long as the Heap that made them.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::data::jinja {

class Object;
struct List;
struct Dict;

struct Undefined {
  const std::string* why = nullptr;  ///< what an error says where more is done with it than printing; null: nothing in particular
};
struct None {};
struct Text {
  std::shared_ptr<const std::string> bytes;  ///< UTF-8
  bool escaped = false;                      ///< it came from `safe` or `escape`: what is added to it is escaped
};

struct Value : std::variant<Undefined, None, bool, std::int64_t, double, Text, const List*, const Dict*, Object*> {
  using variant::variant;
  Value(std::string text) : variant(Text{std::make_shared<const std::string>(std::move(text))}) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char*) = delete;  // it would be a bool

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(*this);
  }
  template <class T>
  const T* as() const {
    return std::get_if<T>(this);
  }
  /// Null where it is no list, dict or object of that type.
  const List* list() const;
  const Dict* dict() const;
  template <class T>
  T* object() const {
    Object* const* found = std::get_if<Object*>(this);
    return found != nullptr ? dynamic_cast<T*>(*found) : nullptr;
  }
  const std::string* text() const {
    const Text* found = as<Text>();
    return found != nullptr ? found->bytes.get() : nullptr;
  }
  /// The value of an integer, or of true and false.
  std::optional<std::int64_t> integer() const;
  /// The value of a number of any type.
  std::optional<double> number() const;
};

enum class ListKind : std::uint8_t { list, tuple, range, generator, keys, values, items };

/// How much lies in a list or dict: it bounds what comparing and printing it takes.
struct Extent {
  int depth = 1;           ///< of lists and dicts inside one another
  std::size_t values = 1;  ///< with those in lists and dicts within, each time that they stand there
};

struct List {
  ListKind kind = ListKind::list;
  std::vector<Value> items;
  Extent extent = {};
  mutable std::size_t taken = 0;  ///< of a generator: its items come once

  bool has_length() const { return kind != ListKind::generator; }
  bool has_elements() const { return kind <= ListKind::range; }
};

struct Dict {
  std::vector<std::pair<Value, Value>> members = {};
  Extent extent = {};

  const Value* find(const Value& key) const;
  const Value* named(std::string_view key) const;
  void set(const Value& key, const Value& value);
};

struct Call;
class Interpreter;

/// What is neither text, number nor container: functions, macros, namespaces, loops.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type() const = 0;
  virtual std::optional<Value> attribute(std::string_view /*name*/, Interpreter& /*in*/) { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Value call(Call& /*call*/) { return {}; }
};

inline const List* Value::list() const {
  const List* const* found = as<const List*>();
  return found != nullptr ? *found : nullptr;
}
inline const Dict* Value::dict() const {
  const Dict* const* found = as<const Dict*>();
  return found != nullptr ? *found : nullptr;
}

/// Python's name of the value's type.
std::string type_name(const Value& value);
/// For messages: "a str", "an int", "none", "an undefined value".
std::string described(const Value& value);
bool truth(const Value& value);
/// Python's ==, to the depth that values of a template have.
bool equal(const Value& a, const Value& b);
bool is_hashable(const Value& value);
Extent extent_of(const Value& value);

/// A double as Python prints it.
std::string number_text(double value);
/// repr() of text.
std::string quoted_text(std::string_view text);

}  // namespace lockstep::data::jinja
