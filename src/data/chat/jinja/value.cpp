#include "data/chat/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/text/utf8.h"
#include "data/pattern/character_set.h"

namespace lockstep::data::jinja {
namespace {

// Equality of what lies so deep is not asked for: an interpreter bounds how deep values nest.
bool equal_lists(const List& a, const List& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || !a.has_elements()) return false;
  return std::ranges::equal(a.items, b.items, [](const Value& x, const Value& y) { return equal(x, y); });
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  return a.members.size() == b.members.size() && std::ranges::all_of(a.members, [&](const auto& member) {
           const Value* other = b.find(member.first);
           return other != nullptr && equal(member.second, *other);
         });
}

bool is_printable(char32_t point) {
  if (point < 0x7F) return point >= 0x20;
  if (point < 0xA1 || point == 0xAD) return false;
  struct Range {
    char32_t first, last;
  };
  static constexpr Range unprinted[] = {{0x600, 0x605},     {0x61C, 0x61C},   {0x6DD, 0x6DD},   {0x70F, 0x70F},
                                        {0x180E, 0x180E},   {0x200B, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F},
                                        {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB}, {0xE0000, 0xE0FFF},
                                        {0xF0000, 0x10FFFF}};
  static const pattern::CharacterSet spaces = pattern::spaces();
  return !spaces.has(point) &&
         std::ranges::none_of(unprinted, [&](const Range& range) { return range.first <= point && point <= range.last; });
}

}  // namespace

std::optional<std::int64_t> Value::integer() const {
  if (const bool* flag = as<bool>()) return *flag ? 1 : 0;
  if (const std::int64_t* whole = as<std::int64_t>()) return *whole;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* real = as<double>()) return *real;
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  const auto found = std::ranges::find_if(members, [&](const auto& member) { return equal(member.first, key); });
  return found == members.end() ? nullptr : &found->second;
}

const Value* Dict::named(std::string_view key) const {
  const auto found = std::ranges::find_if(members, [&](const auto& member) {
    const std::string* name = member.first.text();
    return name != nullptr && *name == key;
  });
  return found == members.end() ? nullptr : &found->second;
}

void Dict::set(const Value& key, const Value& value) {
  if (const Value* there = find(key)) {
    const_cast<Value&>(*there) = value;
  } else {
    members.emplace_back(key, value);
  }
}

std::string type_name(const Value& value) {
  if (const List* list = value.list()) {
    static constexpr const char* names[] = {"list", "tuple", "range", "generator", "dict_keys", "dict_values", "dict_items"};
    return names[static_cast<std::size_t>(list->kind)];
  }
  if (Object* const* object = value.as<Object*>()) return (*object)->type();
  static constexpr const char* names[] = {"Undefined", "NoneType", "bool", "int", "float", "str", "list", "dict"};
  return names[value.index()];
}

std::string described(const Value& value) {
  if (value.is<None>()) return "none";
  if (value.is<Undefined>()) return "an undefined value";
  const std::string name = type_name(value);
  return (name == "int" ? "an " : "a ") + name;
}

bool truth(const Value& value) {
  if (const bool* flag = value.as<bool>()) return *flag;
  if (const auto number = value.number()) return *number != 0;
  if (const std::string* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return !list->has_length() || !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->members.empty();
  return value.is<Object*>();
}

bool equal(const Value& a, const Value& b) {
  if (const auto x = a.integer(), y = b.integer(); x && y) return *x == *y;
  if (const auto x = a.number(), y = b.number(); x && y) return *x == *y;
  if (a.index() != b.index()) return false;
  if (const std::string* text = a.text()) return *text == *b.text();
  if (const List* list = a.list()) return equal_lists(*list, *b.list());
  if (const Dict* dict = a.dict()) return equal_dicts(*dict, *b.dict());
  if (Object* const* object = a.as<Object*>()) return *object == *b.as<Object*>();
  return true;
}

bool is_hashable(const Value& value) {
  const List* list = value.list();
  if (list == nullptr) return !value.is<const Dict*>();
  return list->extent.values < 1000 && list->kind != ListKind::list && std::ranges::all_of(list->items, is_hashable);
}

Extent extent_of(const Value& value) {
  if (const List* list = value.list()) return list->extent;
  if (const Dict* dict = value.dict()) return dict->extent;
  if (const std::string* text = value.text()) return {.depth = 0, .values = 1 + text->size() / 64};
  return {.depth = 0};
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (std::isnan(value)) return "nan";
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string quoted_text(std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const auto code = static_cast<unsigned>(point.value);
    if (text[at] == quote || text[at] == '\\') {
      out += {'\\', text[at]};
    } else if (const std::size_t named = std::string_view("\n\r\t").find(text[at]); named != std::string_view::npos) {
      out += {'\\', "nrt"[named]};
    } else if (is_printable(point.value)) {
      out += text.substr(at, point.length);
    } else {
      out += code < 0x100     ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
    }
    at += std::max<std::size_t>(point.length, 1);
  }
  return out + quote;
}

}  // namespace lockstep::data::jinja
