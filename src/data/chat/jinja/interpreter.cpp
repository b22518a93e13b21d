#include "data/chat/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/chat/jinja/library.h"
#include "data/chat/jinja/python_text.h"
#include "data/chat/jinja/tokens.h"

namespace lockstep::data::jinja {
namespace {

// Values that nest without end would be compared and printed without end.
constexpr int deepest_value = 300;
constexpr std::size_t most_values = std::size_t{1} << 24;

void add(Extent& extent, const Value& value) {
  const Extent more = extent_of(value);
  extent.depth = std::max(extent.depth, more.depth + 1);
  extent.values = std::min(extent.values + more.values, most_values + 1);
}

}  // namespace

std::vector<const Value*> Call::bind(std::initializer_list<std::string_view> names, std::size_t required) const {
  std::vector<const Value*> bound(names.size(), nullptr);
  if (positional.size() > names.size()) in.refuse(fmt::format("{}() takes at most {} arguments", name, names.size()));
  for (std::size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [key, value] : named) {
    const auto place = static_cast<std::size_t>(std::ranges::find(names, key) - names.begin());
    if (place == names.size()) in.refuse(fmt::format("{}() has no argument '{}'", name, key));
    if (bound[place] != nullptr) in.refuse(fmt::format("{}() has its argument '{}' twice", name, key));
    bound[place] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) in.refuse(fmt::format("{}() needs its argument '{}'", name, names.begin()[i]));
  }
  return bound;
}

Value* Scope::find(std::string_view name) {
  for (Scope* scope = this; scope != nullptr; scope = scope->parent) {
    const auto found = std::ranges::find_if(scope->variables, [&](const auto& variable) { return variable.first == name; });
    if (found != scope->variables.end()) return &found->second;
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  const auto found = std::ranges::find_if(variables, [&](const auto& variable) { return variable.first == name; });
  if (found != variables.end()) {
    found->second = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

Interpreter::Interpreter(std::string_view source, const Settings& settings) : source_(source), settings_(settings) {}

Rendered Interpreter::render(const std::vector<Node>& statements, const Json::Object& variables) {
  Scope& functions = new_scope(nullptr);
  add_functions(*this, functions);
  Scope& given = new_scope(&functions);
  for (const auto& [name, value] : variables) given.set(name, from_json(value));
  scope_ = &new_scope(&given);
  out_ = &rendered_.text;
  execute(statements);
  return std::move(rendered_);
}

void Interpreter::refuse(const std::string& what, const std::string& remedy) const {
  refuse_at(source_, at_, what, remedy.empty() ? "mend the template, or the messages that it gets" : remedy);
}

void Interpreter::demand(const Value& value) const {
  if (const Undefined* undefined = value.as<Undefined>())
    refuse(undefined->why != nullptr ? *undefined->why : "a value is undefined");
}

void Interpreter::charge(std::size_t units) {
  work_ += std::min(units, settings_.limits.work) + 1;
  if (work_ > settings_.limits.work) refuse("the template takes too long", "no chat template needs so much: mend its loops");
}

Value Interpreter::list(std::vector<Value> items, ListKind kind) {
  charge(items.size() * (sizeof(Value) / 8) + sizeof(List) / 8);
  List made{.kind = kind, .items = std::move(items)};
  for (const Value& item : made.items) add(made.extent, item);
  demand_extent(made.extent);
  lists_.push_back(std::move(made));
  return static_cast<const List*>(&lists_.back());
}

Value Interpreter::dict(Dict dict) {
  charge(dict.members.size() * (sizeof(Value) / 4) + sizeof(Dict) / 8);
  dict.extent = {};
  for (const auto& [key, value] : dict.members) add(dict.extent, key), add(dict.extent, value);
  demand_extent(dict.extent);
  dicts_.push_back(std::move(dict));
  return static_cast<const Dict*>(&dicts_.back());
}

void Interpreter::demand_extent(const Extent& extent) const {
  if (extent.depth > deepest_value)
    refuse(fmt::format("more than {} lists and dicts inside one another", deepest_value), "no chat template needs it");
  if (extent.values > most_values) refuse("a list or dict becomes too long", "no chat template needs it");
}

bool Interpreter::same(const Value& a, const Value& b) {
  charge(std::min(extent_of(a).values, extent_of(b).values));
  return equal(a, b);
}

Value Interpreter::text(std::string text) {
  charge(text.size() / 8);
  if (text.size() > settings_.limits.text) refuse("a text becomes too long", "shorten the conversation");
  return text;
}

Value Interpreter::undefined(std::string why) {
  charge(why.size() / 8);
  reasons_.push_back(std::move(why));
  return Undefined{&reasons_.back()};
}

Value Interpreter::from_json(const Json& json) {
  if (json.is_null()) return None{};
  if (json.is_bool()) return json.boolean();
  if (json.is_int()) return json.integer();
  if (json.is_long_integer()) refuse(fmt::format("the integer {} has more than 64 bits", json.number()), "write it as a string");
  if (json.is_number()) return json.number();
  if (json.is_string()) return text(json.string());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& item : json.array()) items.push_back(from_json(item));
    return list(std::move(items));
  }
  Dict members;
  for (const auto& [key, value] : json.object()) members.members.emplace_back(text(key), from_json(value));
  return dict(std::move(members));
}

Value Interpreter::evaluate(const Node& node) {
  if (node.kind == NodeKind::constant) return node.value;
  const Depth depth(*this, node);
  return evaluate_here(node);
}

Value Interpreter::evaluate_here(const Node& node) {
  switch (node.kind) {
    case NodeKind::name: {
      const Value* found = scope_->find(node.text);
      return found != nullptr ? *found : undefined(fmt::format("'{}' is undefined", node.text));
    }
    case NodeKind::tuple:
    case NodeKind::list: {
      std::vector<Value> items;
      for (const Node& part : node.parts) items.push_back(evaluate(part));
      return list(std::move(items), node.kind == NodeKind::tuple ? ListKind::tuple : ListKind::list);
    }
    case NodeKind::dict: {
      Dict made;
      for (std::size_t i = 0; i < node.parts.size(); i += 2) {
        const Value key = evaluate(node.parts[i]);
        if (!is_hashable(key)) refuse(fmt::format("{} cannot be a key", described(key)));
        made.set(key, evaluate(node.parts[i + 1]));
      }
      return dict(std::move(made));
    }
    case NodeKind::attribute:
      return attribute(evaluate(node.parts[0]), node.text);
    case NodeKind::item:
      return evaluate_item(node);
    case NodeKind::call:
      return call(evaluate(node.parts[0]), arguments(node, ""));
    case NodeKind::written:
      return written_;
    case NodeKind::filter:
    case NodeKind::test: {
      Value subject = evaluate(node.parts[0]);
      Call made = arguments(node, node.text);
      made.positional.insert(made.positional.begin(), std::move(subject));
      return node.kind == NodeKind::filter ? filter(std::move(made)) : Value(test(std::move(made)));
    }
    default:
      return evaluate_operation(node);
  }
}

Value Interpreter::evaluate_operation(const Node& node) {
  switch (node.kind) {
    case NodeKind::negation:
      return !truth(evaluate(node.parts[0]));
    case NodeKind::sign:
      return evaluate_sign(node);
    case NodeKind::binary: {
      const Value left = evaluate(node.parts[0]);
      if (node.text == "or") return truth(left) ? left : evaluate(node.parts[1]);
      if (node.text == "and") return truth(left) ? evaluate(node.parts[1]) : left;
      return binary(node.text, left, evaluate(node.parts[1]));
    }
    case NodeKind::comparison:
      return evaluate_comparison(node);
    case NodeKind::conditional:
      if (truth(evaluate(node.parts[1]))) return evaluate(node.parts[0]);
      return node.parts.size() == 3 ? evaluate(node.parts[2]) : undefined("an `if` without `else` was false, and gives no value");
    default:
      refuse("this is no expression");
  }
}

Value Interpreter::evaluate_sign(const Node& node) {
  const Value value = evaluate(node.parts[0]);
  demand(value);
  if (!value.number()) refuse(fmt::format("{} has no sign", described(value)));
  if (const double* real = value.as<double>()) return node.text == "-" ? -*real : *real;
  return binary(node.text, std::int64_t{0}, value);
}

Value Interpreter::evaluate_comparison(const Node& node) {
  Value left = evaluate(node.parts[0]);
  for (const auto& [word, operand] : node.named) {
    Value right = evaluate(operand);
    if (!compare(word, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Call Interpreter::arguments(const Node& node, std::string name) {
  Call made{.in = *this, .name = std::move(name)};
  for (std::size_t i = 1; i < node.parts.size(); ++i) made.positional.push_back(evaluate(node.parts[i]));
  for (const auto& [key, value] : node.named) {
    const Value given = evaluate(value);
    if (key == "*") {
      for (const Value& item : items(given)) made.positional.push_back(item);
    } else if (key == "**") {
      spread(given, made);
    } else {
      made.named.emplace_back(key, given);
    }
  }
  return made;
}

void Interpreter::spread(const Value& given, Call& call) {
  const Dict* dict = given.dict();
  if (dict == nullptr) refuse(fmt::format("a dict is expected behind '**', found {}", described(given)));
  for (const auto& [key, value] : dict->members) {
    const std::string* name = key.text();
    if (name == nullptr) refuse(fmt::format("the names of arguments are str, found {}", described(key)));
    if (std::ranges::count(call.named, *name, &std::pair<std::string, Value>::first) > 0)
      refuse(fmt::format("the argument '{}' is given twice", *name));
    call.named.emplace_back(*name, value);
  }
}

Value Interpreter::filter(Call call) {
  const Function found = find_filter(call.name);
  if (found == nullptr) refuse(fmt::format("the filter '{}' is not known", call.name), "mend the template");
  return found(call);
}

bool Interpreter::test(Call call) {
  const Function found = find_test(call.name);
  if (found == nullptr) refuse(fmt::format("the test '{}' is not known", call.name), "mend the template");
  return truth(found(call));
}

Value Interpreter::call(const Value& function, Call call) {
  demand(function);
  Object* const* object = function.as<Object*>();
  if (object == nullptr || !(*object)->callable()) refuse(fmt::format("{} cannot be called", described(function)));
  return (*object)->call(call);
}

Value Interpreter::run_macro(const Node& macro, Scope* around, Call& call) {
  Scope& scope = new_scope(around);
  const std::size_t names = macro.parts.size(), without = names - macro.named.size();
  if (call.positional.size() > names && !macro.uses_varargs)
    refuse(fmt::format("the macro '{}' takes at most {} arguments", macro.text, names));
  Scope* const outside = std::exchange(scope_, &scope);
  for (std::size_t i = 0; i < names; ++i) {
    const std::string& name = macro.parts[i].text;
    const auto given = std::ranges::find_if(call.named, [&](const auto& argument) { return argument.first == name; });
    if (i < call.positional.size()) {
      scope.set(name, call.positional[i]);
    } else if (given != call.named.end()) {
      scope.set(name, given->second);
      call.named.erase(given);
    } else {
      scope.set(name, i < without ? undefined(fmt::format("parameter '{}' was not provided", name))
                                  : evaluate(macro.named[i - without].second));
    }
  }
  Dict more;
  for (const auto& [name, value] : call.named) {
    if (name == "caller" && macro.uses_caller) continue;
    if (!macro.uses_kwargs) refuse(fmt::format("the macro '{}' has no argument '{}'", macro.text, name));
    more.set(text(name), value);
  }
  if (macro.uses_caller &&
      scope.variables.end() == std::ranges::find_if(scope.variables, [](const auto& v) { return v.first == "caller"; })) {
    const auto given = std::ranges::find_if(call.named, [](const auto& argument) { return argument.first == "caller"; });
    scope.set("caller", given != call.named.end() ? given->second : undefined("No caller defined"));
  }
  if (macro.uses_kwargs) scope.set("kwargs", dict(std::move(more)));
  if (macro.uses_varargs) {
    const auto from = call.positional.begin() + static_cast<std::ptrdiff_t>(std::min(names, call.positional.size()));
    scope.set("varargs", list({from, call.positional.end()}, ListKind::tuple));
  }
  std::string written = captured(macro.blocks[0], scope);
  scope_ = outside;
  return text(std::move(written));
}

}  // namespace lockstep::data::jinja
