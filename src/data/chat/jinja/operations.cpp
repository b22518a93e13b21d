// What operators, subscripts and attributes mean.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/chat/jinja/interpreter.h"
#include "data/chat/jinja/library.h"
#include "data/chat/jinja/python_text.h"

namespace lockstep::data::jinja {
namespace {

constexpr const char *too_great = "an integer beyond 64 bits",
                     *no_power = "powers other than of an integer by one from 0 on are not known";

}  // namespace

std::string Interpreter::printed(const Value& value) {
  if (const std::string* text = value.text()) return *text;
  return value.is<Undefined>() ? "" : represented(value);
}

std::string Interpreter::represented(const Value& value) {
  if (const std::string* text = value.text()) return quoted_text(*text);
  if (value.is<Undefined>()) return "Undefined";
  if (value.is<None>()) return "None";
  if (const bool* flag = value.as<bool>()) return *flag ? "True" : "False";
  if (const std::int64_t* whole = value.as<std::int64_t>()) return fmt::format("{}", *whole);
  if (const double* real = value.as<double>()) return number_text(*real);
  std::string out;
  const auto add = [&](const std::string& item) {
    charge(item.size() / 8);
    out += out.empty() ? item : ", " + item;
  };
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, member] : dict->members) add(represented(key) + ": " + represented(member));
    return "{" + out + "}";
  }
  const List* list = value.list();
  if (list == nullptr || list->kind == ListKind::range || list->kind == ListKind::generator)
    refuse(fmt::format("{} is no text", described(value)));
  for (const Value& item : list->items) add(represented(item));
  if (list->kind == ListKind::tuple) return "(" + out + (list->items.size() == 1 ? ",)" : ")");
  return list->kind == ListKind::list ? "[" + out + "]" : type_name(value) + "([" + out + "])";
}

std::vector<Value> Interpreter::items(const Value& value) {
  std::vector<Value> all;
  if (const List* list = value.list()) {
    charge(list->items.size());
    all.assign(list->items.begin() + static_cast<std::ptrdiff_t>(list->taken), list->items.end());
    if (!list->has_length()) list->taken = list->items.size();
  } else if (const Dict* dict = value.dict()) {
    charge(dict->members.size());
    for (const auto& member : dict->members) all.push_back(member.first);
  } else if (const std::string* text = value.text()) {
    charge(text->size() * 8);
    for (const std::string_view character : characters_of(*text)) all.emplace_back(character);
  } else if (!value.is<Undefined>()) {
    refuse(fmt::format("{} has no items to go through", described(value)));
  }
  return all;
}

Value Interpreter::method_or_undefined(const Value& value, const std::string& name, bool is_item) {
  if (const Function method = find_method(value, name)) return object<FunctionObject>(name, method, value);
  if (is_closed_attribute(value, name) || name.starts_with("__"))
    return undefined(
        fmt::format("a template may not use '{}' of {}, which would change it or is not known", name, described(value)));
  return undefined(fmt::format("{} has no {} '{}'", described(value), is_item ? "item" : "attribute", name));
}

Value Interpreter::attribute(const Value& value, const std::string& name) {
  demand(value);
  if (Object* const* object = value.as<Object*>()) {
    if (std::optional<Value> found = (*object)->attribute(name, *this)) return *found;
  } else if (const Dict* dict = value.dict()) {
    const bool is_method = find_method(value, name) != nullptr || is_closed_attribute(value, name);
    charge(dict->members.size() / 8);
    if (const Value* found = is_method ? nullptr : dict->named(name)) return *found;
  }
  return method_or_undefined(value, name, false);
}

Value Interpreter::item(const Value& value, const Value& key) {
  demand(value);
  const std::string* name = key.text();
  if (const Dict* dict = value.dict()) {
    charge(dict->members.size() / 8);
    if (const Value* found = name != nullptr ? dict->named(*name) : dict->find(key)) return *found;
  } else if (const auto index = key.integer()) {
    const List* list = value.list();
    const std::string* text = value.text();
    const std::vector<std::string_view> characters = text != nullptr ? characters_of(*text) : std::vector<std::string_view>{};
    if (text != nullptr) charge(text->size() / 4);
    const std::int64_t size = list != nullptr && list->has_elements() ? std::ssize(list->items) : std::ssize(characters);
    const std::int64_t place = *index < 0 ? *index + size : *index;
    if (place >= 0 && place < size) {
      const auto at = static_cast<std::size_t>(place);
      return text != nullptr ? Value(characters[at]) : list->items[at];
    }
  } else if (Object* const* object = value.as<Object*>(); object != nullptr && name != nullptr) {
    if (std::optional<Value> found = (*object)->attribute(*name, *this)) return *found;
  }
  return method_or_undefined(value, name != nullptr ? *name : represented(key), true);
}

Value Interpreter::evaluate_item(const Node& node) {
  const Value value = evaluate(node.parts[0]);
  if (node.parts[1].kind == NodeKind::slice) return evaluate_slice(value, node.parts[1]);
  return item(value, evaluate(node.parts[1]));
}

Value Interpreter::evaluate_slice(const Value& value, const Node& slice) {
  demand(value);
  std::optional<std::int64_t> bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const Value bound = evaluate(slice.parts[i]);
    if (!bound.is<None>()) bounds[i] = whole(bound, "a bound of a slice");
  }
  const List* list = value.list();
  const bool is_text = value.text() != nullptr;
  if (!is_text && (list == nullptr || !list->has_elements())) refuse(fmt::format("{} has no slices", described(value)));
  const std::vector<Value> all = items(value);
  const std::int64_t size = std::ssize(all), step = bounds[2].value_or(1);
  if (step == 0) refuse("the step of a slice is 0");
  const auto place = [&](std::optional<std::int64_t> bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    const std::int64_t from_start = *bound < 0 ? *bound + size : *bound;
    return step > 0 ? std::clamp<std::int64_t>(from_start, 0, size) : std::clamp<std::int64_t>(from_start, -1, size - 1);
  };
  const std::int64_t begin = place(bounds[0], step > 0 ? 0 : size - 1), end = place(bounds[1], step > 0 ? size : -1);
  std::vector<Value> chosen;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    chosen.push_back(all[static_cast<std::size_t>(at)]);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  if (!is_text) return this->list(std::move(chosen), list->kind == ListKind::tuple ? ListKind::tuple : ListKind::list);
  std::string text;
  for (const Value& character : chosen) text += *character.text();
  return this->text(std::move(text));
}

std::int64_t Interpreter::whole(const Value& value, std::string_view what) {
  demand(value);
  const auto number = value.integer();
  if (!number) refuse(fmt::format("{} is an integer, found {}", what, described(value)));
  return *number;
}

bool Interpreter::less(const Value& a, const Value& b) {
  demand(a), demand(b);
  if (const auto x = a.integer(), y = b.integer(); x && y) return *x < *y;
  if (const auto x = a.number(), y = b.number(); x && y) return *x < *y;
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() < *b.text();
  const List *x = a.list(), *y = b.list();
  if (x == nullptr || y == nullptr || x->kind != y->kind || x->kind > ListKind::tuple)
    refuse(fmt::format("{} and {} have no order", described(a), described(b)));
  for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!same(x->items[i], y->items[i])) return less(x->items[i], y->items[i]);
  }
  return x->items.size() < y->items.size();
}

bool Interpreter::contains(const Value& container, const Value& value) {
  if (const std::string* text = container.text()) {
    demand(value);
    if (value.text() == nullptr) refuse(fmt::format("`in` a str looks for a str, found {}", described(value)));
    charge(text->size() / 8);
    return text->find(*value.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    charge(dict->members.size());
    if (!is_hashable(value)) refuse(fmt::format("{} cannot be a key", described(value)));
    return dict->find(value) != nullptr;
  }
  const std::vector<Value> all = items(container);
  return std::ranges::any_of(all, [&](const Value& item) { return same(item, value); });
}

bool Interpreter::compare(std::string_view word, const Value& a, const Value& b) {
  charge(1);
  if (word == "==") return same(a, b);
  if (word == "!=") return !same(a, b);
  if (word == "in") return contains(b, a);
  if (word == "not in") return !contains(b, a);
  const auto x = a.number(), y = b.number();
  if (x && y && (std::isnan(*x) || std::isnan(*y))) return false;
  if (word == "<") return less(a, b);
  if (word == ">") return less(b, a);
  return word == "<=" ? !less(b, a) : !less(a, b);
}

Value Interpreter::repeated(const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (const std::string* one = value.text()) {
    if (!one->empty() && count > settings_.limits.text / one->size()) refuse("a text becomes too long", "shorten it");
    charge(one->size() * count / 8);
    std::string all;
    for (std::size_t i = 0; i < count && !one->empty(); ++i) all += *one;
    return text(std::move(all));
  }
  const List& one = *value.list();
  if (!one.items.empty() && count > settings_.limits.work / one.items.size()) refuse("a list becomes too long", "shorten it");
  charge(one.items.size() * count);
  std::vector<Value> all;
  for (std::size_t i = 0; i < count && !one.items.empty(); ++i) all.insert(all.end(), one.items.begin(), one.items.end());
  return list(std::move(all), one.kind);
}

Value Interpreter::sum(const Text& a, const Text& b) {
  const bool either = a.escaped || b.escaped;
  const auto part = [&](const Text& text) { return either && !text.escaped ? escaped(*text.bytes) : *text.bytes; };
  Value made = text(part(a) + part(b));
  std::get<Text>(made).escaped = either;
  return made;
}

Value Interpreter::sum(const List& a, const List& b) {
  std::vector<Value> all = a.items;
  all.insert(all.end(), b.items.begin(), b.items.end());
  return list(std::move(all), a.kind);
}

Value Interpreter::binary(std::string_view operation, const Value& a, const Value& b) {
  if (operation == "~") return text(printed(a) + printed(b));
  demand(a), demand(b);
  const auto x = a.integer(), y = b.integer();
  // One letter for those of two characters.
  const char one = operation == "//" ? 'f' : operation == "**" ? 'p' : operation.front();
  if (x && y) return whole_arithmetic(one, *x, *y);
  if (const auto u = a.number(), v = b.number(); u && v) return real_arithmetic(one, *u, *v);
  const Text *left = a.as<Text>(), *right = b.as<Text>();
  const List *l = a.list(), *r = b.list();
  const auto repeats = [](const Text* text, const List* list) {
    return text != nullptr || (list != nullptr && list->kind <= ListKind::tuple);
  };
  if (one == '+' && left != nullptr && right != nullptr) return sum(*left, *right);
  if (one == '+' && l != nullptr && r != nullptr && l->kind == r->kind && l->kind <= ListKind::tuple) return sum(*l, *r);
  if (one == '*' && y && repeats(left, l)) return repeated(a, *y);
  if (one == '*' && x && repeats(right, r)) return repeated(b, *x);
  if (one == '%' && left != nullptr) {
    Call made{.in = *this, .name = "%", .positional = {a}};
    const std::vector<Value> values = r != nullptr && r->kind == ListKind::tuple ? r->items : std::vector<Value>{b};
    made.positional.insert(made.positional.end(), values.begin(), values.end());
    return format_text(made);
  }
  refuse(fmt::format("'{}' does not go with {} and {}", operation, described(a), described(b)));
}

Value Interpreter::whole_arithmetic(char operation, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  if (operation == '/') return real_arithmetic('/', static_cast<double>(a), static_cast<double>(b));
  if (operation == 'f' || operation == '%') return floored(operation, a, b);
  if (operation == 'p') return whole_power(a, b);
  if (operation == '+') overflows = __builtin_add_overflow(a, b, &result);
  if (operation == '-') overflows = __builtin_sub_overflow(a, b, &result);
  if (operation == '*') overflows = __builtin_mul_overflow(a, b, &result);
  if (overflows) refuse(too_great);
  return result;
}

// Python's // and %, which go down.
std::int64_t Interpreter::floored(char operation, std::int64_t a, std::int64_t b) {
  if (b == 0) refuse("division by zero");
  if (b == -1 && operation == 'f' && a == std::numeric_limits<std::int64_t>::min()) refuse(too_great);
  const std::int64_t remainder = b == -1 ? 0 : a % b, below = remainder != 0 && (remainder < 0) != (b < 0) ? 1 : 0;
  return operation == 'f' ? a / b - below : remainder + below * b;
}

std::int64_t Interpreter::whole_power(std::int64_t a, std::int64_t b) {
  if (b < 0) refuse(no_power);
  if (a == 0 || a == 1) return b == 0 ? 1 : a;
  if (a == -1) return b % 2 == 0 ? 1 : -1;
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < b; ++i) {
    if (__builtin_mul_overflow(result, a, &result)) refuse(too_great);
  }
  return result;
}

Value Interpreter::real_arithmetic(char operation, double a, double b) {
  if (operation == '+') return a + b;
  if (operation == '-') return a - b;
  if (operation == '*') return a * b;
  if (operation == 'p') refuse(no_power);
  if (b == 0) refuse("division by zero");
  if (operation == '/') return a / b;
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (remainder == 0) remainder = std::copysign(0.0, b);
  if (operation == '%') return remainder;
  const double quotient = (a - remainder) / b;
  const double below = std::floor(quotient);
  return quotient == 0 ? std::copysign(0.0, a / b) : quotient - below > 0.5 ? below + 1 : below;
}

}  // namespace lockstep::data::jinja
