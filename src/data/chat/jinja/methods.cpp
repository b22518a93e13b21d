// Methods of str, list, tuple and dict. Each has what it belongs to as its first argument.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "base/number_text.h"
#include "data/chat/jinja/library.h"
#include "data/chat/jinja/python_text.h"

namespace lockstep::data::jinja {
namespace {

using Row = std::pair<std::string_view, Function>;

const std::string& self(Call& call) { return *call.positional[0].text(); }
const std::string& text_of(Call& call, const Value* value) {
  call.in.demand(*value);
  if (value->text() == nullptr) call.in.refuse(fmt::format("{}() takes a str, found {}", call.name, described(*value)));
  return *value->text();
}
std::optional<std::string_view> text_or_none(Call& call, const Value* value) {
  if (value == nullptr || value->is<None>()) return std::nullopt;
  return text_of(call, value);
}

template <auto transform>
Value changed(Call& call) {
  call.bind({"self"});
  return call.in.text(transform(self(call)));
}

template <Side side>
Value strip(Call& call) {
  const auto a = call.bind({"self", "chars"});
  return call.in.text(std::string(stripped(self(call), side, text_or_none(call, a[1]))));
}

Value pieces(Call& call, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  for (const std::string_view part : parts) items.push_back(call.in.text(std::string(part)));
  return call.in.list(std::move(items));
}

template <auto cut>
Value split_by(Call& call) {
  const auto a = call.bind({"self", "sep", "maxsplit"});
  const auto separator = text_or_none(call, a[1]);
  if (separator && separator->empty()) call.in.refuse(fmt::format("{}() takes no empty separator", call.name));
  return pieces(call, cut(self(call), separator, a[2] != nullptr ? call.in.whole(*a[2], "maxsplit") : -1));
}

Value splitlines(Call& call) {
  const auto a = call.bind({"self", "keepends"});
  return pieces(call, lines_of(self(call), a[1] != nullptr && truth(*a[1])));
}

template <bool at_end>
Value starts(Call& call) {
  const auto a = call.bind({"self", "prefix"}, 2);
  const List* several = a[1]->list();
  const std::vector<Value> all =
      several != nullptr && several->kind == ListKind::tuple ? several->items : std::vector<Value>{*a[1]};
  return std::ranges::any_of(all, [&](const Value& one) {
    return at_end ? self(call).ends_with(text_of(call, &one)) : self(call).starts_with(text_of(call, &one));
  });
}

template <bool at_end>
Value removed(Call& call) {
  const auto a = call.bind({"self", "part"}, 2);
  std::string_view text = self(call);
  const std::string& part = text_of(call, a[1]);
  if (at_end ? text.ends_with(part) : text.starts_with(part))
    text = text.substr(at_end ? 0 : part.size(), text.size() - part.size());
  return call.in.text(std::string(text));
}

Value replace(Call& call) {
  const auto a = call.bind({"self", "old", "new", "count"}, 3);
  const std::string &old = text_of(call, a[1]), &by = text_of(call, a[2]);
  call.in.charge((self(call).size() + 1) * (by.size() + 1) / 8);
  return call.in.text(replaced(self(call), old, by, a[3] != nullptr ? call.in.whole(*a[3], "count") : -1));
}

// find, rfind, index, rindex: a character's number from 0.
template <bool from_right, bool must>
Value find(Call& call) {
  const auto a = call.bind({"self", "sub"}, 2);
  const std::string& text = self(call);
  const std::size_t found = from_right ? text.rfind(text_of(call, a[1])) : text.find(text_of(call, a[1]));
  if (found == std::string::npos && must) call.in.refuse(fmt::format("{}(): the substring is not there", call.name));
  return found == std::string::npos ? std::int64_t{-1}
                                    : static_cast<std::int64_t>(character_count(std::string_view(text).substr(0, found)));
}

Value count(Call& call) {
  const auto a = call.bind({"self", "sub"}, 2);
  const std::string& sub = text_of(call, a[1]);
  if (sub.empty()) return static_cast<std::int64_t>(character_count(self(call)) + 1);
  return std::ssize(split(self(call), sub)) - 1;
}

Value join(Call& call) {
  const auto a = call.bind({"self", "iterable"}, 2);
  std::string out;
  bool first = true;
  for (const Value& item : call.in.items(*a[1])) {
    call.in.charge((self(call).size() + text_of(call, &item).size()) / 8);
    if (!std::exchange(first, false)) out += self(call);
    out += *item.text();
  }
  return call.in.text(std::move(out));
}

Value get(Call& call) {
  const auto a = call.bind({"self", "key", "default"}, 2);
  if (!is_hashable(*a[1])) call.in.refuse(fmt::format("{} cannot be a key", described(*a[1])));
  const Value* found = a[0]->dict()->find(*a[1]);
  return found != nullptr ? *found : a[2] != nullptr ? *a[2] : Value(None{});
}

template <ListKind kind>
Value view(Call& call) {
  call.bind({"self"});
  std::vector<Value> all;
  for (const auto& [key, value] : call.positional[0].dict()->members)
    all.push_back(kind == ListKind::keys ? key : kind == ListKind::values ? value : call.in.list({key, value}, ListKind::tuple));
  return call.in.list(std::move(all), kind);
}

Value itself(Call& call) { return *call.bind({"self"})[0]; }

template <bool by_place>
Value occurrences(Call& call) {
  const auto a = call.bind({"self", "value"}, 2);
  const std::vector<Value> all = call.in.items(*a[0]);
  const auto is_it = [&](const Value& item) { return call.in.same(item, *a[1]); };
  if (!by_place) return static_cast<std::int64_t>(std::ranges::count_if(all, is_it));
  const auto found = std::ranges::find_if(all, is_it);
  if (found == all.end()) call.in.refuse("index(): the value is not there");
  return static_cast<std::int64_t>(found - all.begin());
}

Value kind_of_text(Call& call) {
  call.bind({"self"});
  return has_only(self(call), call.name);
}

std::string title(const std::string& text) { return titled(text, false); }

constexpr Row of_text[] = {
    {"capitalize", changed<capitalized>},
    {"count", count},
    {"endswith", starts<true>},
    {"find", find<false, false>},
    {"format", format_fields},
    {"index", find<false, true>},
    {"isalnum", kind_of_text},
    {"isalpha", kind_of_text},
    {"isascii", kind_of_text},
    {"isdecimal", kind_of_text},
    {"isdigit", kind_of_text},
    {"islower", kind_of_text},
    {"isnumeric", kind_of_text},
    {"isspace", kind_of_text},
    {"istitle", kind_of_text},
    {"isupper", kind_of_text},
    {"join", join},
    {"lower", changed<lower>},
    {"lstrip", strip<Side::left>},
    {"removeprefix", removed<false>},
    {"removesuffix", removed<true>},
    {"replace", replace},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rsplit", split_by<split_from_right>},
    {"rstrip", strip<Side::right>},
    {"split", split_by<split>},
    {"splitlines", splitlines},
    {"startswith", starts<false>},
    {"strip", strip<Side::both>},
    {"title", changed<title>},
    {"upper", changed<upper>},
};
constexpr Row of_lists[] = {{"copy", itself}, {"count", occurrences<false>}, {"index", occurrences<true>}};
constexpr Row of_dicts[] = {{"copy", itself},
                            {"get", get},
                            {"items", view<ListKind::items>},
                            {"keys", view<ListKind::keys>},
                            {"values", view<ListKind::values>}};

constexpr std::string_view closed_of_text[] = {"casefold",     "center",      "ljust",     "partition",  "rjust",
                                               "rpartition",   "zfill",       "encode",    "expandtabs", "format_map",
                                               "isidentifier", "isprintable", "maketrans", "swapcase",   "translate"};
constexpr std::string_view closed_of_lists[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
constexpr std::string_view closed_of_dicts[] = {"clear", "fromkeys", "pop", "popitem", "setdefault", "update"};

Function in_table(std::span<const Row> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Row::first);
  return found != table.end() ? found->second : nullptr;
}

}  // namespace

Function find_method(const Value& value, std::string_view name) {
  if (value.text() != nullptr) return in_table(of_text, name);
  if (value.dict() != nullptr) return in_table(of_dicts, name);
  const List* list = value.list();
  if (list == nullptr || list->kind > ListKind::range) return nullptr;
  return list->kind != ListKind::list && name == "copy" ? nullptr : in_table(of_lists, name);
}

bool is_closed_attribute(const Value& value, std::string_view name) {
  const auto within = [&](std::span<const std::string_view> names) { return std::ranges::find(names, name) != names.end(); };
  if (value.text() != nullptr) return within(closed_of_text);
  if (value.dict() != nullptr) return within(closed_of_dicts);
  return value.list() != nullptr && value.list()->kind == ListKind::list && within(closed_of_lists);
}

Value FunctionObject::call(Call& call) {
  if (self_) {
    std::vector<Value> all{*self_};
    std::ranges::move(call.positional, std::back_inserter(all));
    call.positional = std::move(all);
  }
  call.name = name_;
  return function_(call);
}

}  // namespace lockstep::data::jinja
