#pragma once

// Filters, tests, methods and functions, by their names.

#include <optional>
#include <string_view>

#include "data/chat/jinja/interpreter.h"

namespace lockstep::data::jinja {

using Function = Value (*)(Call& call);

/// The filter of that name; null: it is not known.
Function find_filter(std::string_view name);
Function find_test(std::string_view name);
/// A method of str, list, tuple or dict.
Function find_method(const Value& value, std::string_view name);
/// Whether Python's type has that attribute, and a template may not use it here or it is not known.
bool is_closed_attribute(const Value& value, std::string_view name);
/// range, namespace, raise_exception, ...
void add_functions(Interpreter& in, Scope& scope);

/// A function as a value. `self`: what a method belongs to.
class FunctionObject : public Object {
 public:
  FunctionObject(std::string name, Function function, std::optional<Value> self = std::nullopt)
      : name_(std::move(name)), function_(function), self_(std::move(self)) {}
  std::string type() const override { return self_ ? "builtin_function_or_method" : "function"; }
  bool callable() const override { return true; }
  Value call(Call& call) override;

 private:
  std::string name_;
  Function function_;
  std::optional<Value> self_;
};

class Namespace : public Object {
 public:
  std::string type() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name, Interpreter& in) override;

  Dict members;
};

/// A macro, or the block of a {% call %}. It sees the scope that it stands in.
class Macro : public Object {
 public:
  Macro(const Node& node, Scope* around) : node_(node), around_(around) {}
  std::string type() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value call(Call& call) override { return call.in.run_macro(node_, around_, call); }

 private:
  const Node& node_;
  Scope* around_;
};

/// "%s and %d" % (...): the text is the first argument.
Value format_text(Call& call);
/// "{} and {name}".format(...): Python's str.format, whose fields name arguments and nothing inside them.
Value format_fields(Call& call);

/// JSON as Python's json.dumps writes it.
struct JsonStyle {
  bool ascii = false, sorted = false;
  std::optional<std::string> indent = std::nullopt;  ///< of each level
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(const Value& value, const JsonStyle& style, Interpreter& in);

/// value.a.b.0, as filters name what they look at.
Value path_of(const Value& value, const Value& path, Interpreter& in);

}  // namespace lockstep::data::jinja
