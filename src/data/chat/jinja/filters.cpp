// Filters. Each has its subject as the first argument, and Jinja's names for the others.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "data/chat/jinja/library.h"
#include "data/chat/jinja/python_text.h"

namespace lockstep::data::jinja {
namespace {

using Row = std::pair<std::string_view, Function>;

bool flag(const Value* value) { return value != nullptr && truth(*value); }
bool given(const Value* value) { return value != nullptr && !value->is<None>(); }
std::string text_of(Call& call) { return call.in.printed(call.bind({"s"}, 1)[0][0]); }

template <auto transform>
Value text_filter(Call& call) {
  return call.in.text(transform(text_of(call)));
}

Value trim(Call& call) {
  const auto a = call.bind({"value", "chars"}, 1);
  const std::string text = call.in.printed(*a[0]);
  const std::optional<std::string> set = given(a[1]) ? std::optional(call.in.printed(*a[1])) : std::nullopt;
  return call.in.text(std::string(stripped(text, Side::both, set)));
}

Value marked(Call& call, bool escape) {
  const Value& value = *call.bind({"value"}, 1)[0];
  if (const Text* text = value.as<Text>(); text != nullptr && text->escaped) return value;
  Value made = call.in.text(escape ? escaped(call.in.printed(value)) : call.in.printed(value));
  std::get<Text>(made).escaped = true;
  return made;
}

Value default_value(Call& call) {
  const auto a = call.bind({"value", "default_value", "boolean"}, 1);
  if (!a[0]->is<Undefined>() && !(flag(a[2]) && !truth(*a[0]))) return *a[0];
  return a[1] != nullptr ? *a[1] : Value(std::string());
}

Value length(Call& call) {
  const Value& value = *call.bind({"obj"}, 1)[0];
  if (const std::string* text = value.text()) return static_cast<std::int64_t>(character_count(*text));
  if (const List* list = value.list(); list != nullptr && list->has_length())
    return static_cast<std::int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->members.size());
  if (!value.is<Undefined>()) call.in.refuse(fmt::format("{} has no length", described(value)));
  return std::int64_t{0};
}

Value join(Call& call) {
  const auto a = call.bind({"value", "d", "attribute"}, 1);
  const std::string between = a[1] != nullptr ? call.in.printed(*a[1]) : "";
  std::string out;
  bool first = true;
  for (const Value& item : call.in.items(*a[0])) {
    const std::string part = call.in.printed(given(a[2]) ? path_of(item, *a[2], call.in) : item);
    call.in.charge((between.size() + part.size()) / 8);
    if (!first) out += between;
    out += part;
    first = false;
  }
  return call.in.text(std::move(out));
}

Value first(Call& call) {
  const Value& value = *call.bind({"seq"}, 1)[0];
  if (const List* list = value.list(); list != nullptr && !list->has_length())
    return list->taken < list->items.size() ? list->items[list->taken++]
                                            : call.in.undefined("No first item, sequence was empty.");
  const std::vector<Value> all = call.in.items(value);
  return all.empty() ? call.in.undefined("No first item, sequence was empty.") : all.front();
}

Value last(Call& call) {
  const Value& value = *call.bind({"seq"}, 1)[0];
  if (const List* list = value.list(); list != nullptr && !list->has_length()) call.in.refuse("a generator has no last item");
  const std::vector<Value> all = call.in.items(value);
  return all.empty() ? call.in.undefined("No last item, sequence was empty.") : all.back();
}

Value as_list(Call& call) { return call.in.list(call.in.items(*call.bind({"value"}, 1)[0])); }

Value items(Call& call) {
  const Value& value = *call.bind({"value"}, 1)[0];
  std::vector<Value> pairs;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, member] : dict->members) pairs.push_back(call.in.list({key, member}, ListKind::tuple));
  } else if (!value.is<Undefined>()) {
    call.in.refuse(fmt::format("{} has no items of key and value", described(value)));
  }
  return call.in.list(std::move(pairs), ListKind::generator);
}

Value reverse(Call& call) {
  const Value& value = *call.bind({"value"}, 1)[0];
  std::vector<Value> all = call.in.items(value);
  std::ranges::reverse(all);
  if (value.text() == nullptr) return call.in.list(std::move(all), ListKind::generator);
  std::string text;
  for (const Value& character : all) text += *character.text();
  return call.in.text(std::move(text));
}

// Keys are made once, and compared as tuples are.
std::vector<Value> sorted(std::vector<Value> items, const std::vector<Value>& keys, bool reverse, Interpreter& in) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    in.charge(4);
    return reverse ? in.less(keys[b], keys[a]) : in.less(keys[a], keys[b]);
  });
  std::vector<Value> out;
  for (const std::size_t i : order) out.push_back(items[i]);
  return out;
}
Value lowered(const Value& value, bool case_sensitive, Interpreter& in) {
  return value.text() != nullptr && !case_sensitive ? in.text(lower(*value.text())) : value;
}

Value sort(Call& call) {
  const auto a = call.bind({"value", "reverse", "case_sensitive", "attribute"}, 1);
  std::vector<Value> all = call.in.items(*a[0]), keys;
  const std::string* attributes = given(a[3]) ? a[3]->text() : nullptr;
  for (const Value& item : all) {
    std::vector<Value> key;
    if (attributes != nullptr) {
      for (const std::string& path : parts_of_list(*attributes))
        key.push_back(lowered(path_of(item, path, call.in), flag(a[2]), call.in));
    } else {
      key.push_back(lowered(given(a[3]) ? path_of(item, *a[3], call.in) : item, flag(a[2]), call.in));
    }
    keys.push_back(call.in.list(std::move(key)));
  }
  return call.in.list(sorted(std::move(all), keys, flag(a[1]), call.in));
}

Value dictsort(Call& call) {
  const auto a = call.bind({"value", "case_sensitive", "by", "reverse"}, 1);
  const Dict* dict = a[0]->dict();
  if (dict == nullptr) call.in.refuse(fmt::format("a dict is expected, found {}", described(*a[0])));
  const std::string by = a[2] != nullptr ? call.in.printed(*a[2]) : "key";
  if (by != "key" && by != "value") call.in.refuse("dictsort goes by 'key' or 'value'");
  std::vector<Value> pairs, keys;
  for (const auto& [key, value] : dict->members) {
    pairs.push_back(call.in.list({key, value}, ListKind::tuple));
    keys.push_back(lowered(by == "key" ? key : value, flag(a[1]), call.in));
  }
  return call.in.list(sorted(std::move(pairs), keys, flag(a[3]), call.in));
}

Value unique(Call& call) {
  const auto a = call.bind({"value", "case_sensitive", "attribute"}, 1);
  std::vector<Value> out, seen;
  for (const Value& item : call.in.items(*a[0])) {
    const Value key = lowered(given(a[2]) ? path_of(item, *a[2], call.in) : item, flag(a[1]), call.in);
    if (!is_hashable(key)) call.in.refuse(fmt::format("{} cannot be told from others", described(key)));
    if (std::ranges::any_of(seen, [&](const Value& other) { return call.in.same(other, key); })) continue;
    seen.push_back(key);
    out.push_back(item);
  }
  return call.in.list(std::move(out), ListKind::generator);
}

Value extreme(Call& call, bool greatest) {
  const auto a = call.bind({"value", "case_sensitive", "attribute"}, 1);
  std::optional<Value> best, best_key;
  for (const Value& item : call.in.items(*a[0])) {
    Value key = lowered(given(a[2]) ? path_of(item, *a[2], call.in) : item, flag(a[1]), call.in);
    if (best && !(greatest ? call.in.less(*best_key, key) : call.in.less(key, *best_key))) continue;
    best = item;
    best_key = std::move(key);
  }
  return best ? *best : call.in.undefined("No aggregated item, sequence was empty.");
}

// map, select and the like ask first whether there is anything: none and 0 have no items, either.
std::vector<Value> items_if_any(const Value& value, Interpreter& in) {
  return truth(value) ? in.items(value) : std::vector<Value>{};
}

Value map(Call& call) {
  std::vector<Value> out;
  if (call.positional.size() == 1 && !call.named.empty()) {
    const auto a = call.bind({"value", "attribute", "default"}, 2);
    for (const Value& item : items_if_any(*a[0], call.in)) {
      const Value found = path_of(item, *a[1], call.in);
      out.push_back(found.is<Undefined>() && given(a[2]) ? *a[2] : found);
    }
    return call.in.list(std::move(out), ListKind::generator);
  }
  if (call.positional.size() < 2 || call.positional[1].text() == nullptr)
    call.in.refuse("map needs the name of a filter or attribute=");
  const std::string name = *call.positional[1].text();
  for (const Value& item : items_if_any(call.positional[0], call.in)) {
    Call each{.in = call.in, .name = name, .positional = {item}, .named = call.named};
    each.positional.insert(each.positional.end(), call.positional.begin() + 2, call.positional.end());
    out.push_back(call.in.filter(std::move(each)));
  }
  return call.in.list(std::move(out), ListKind::generator);
}

// select, reject, selectattr and rejectattr.
Value chosen(Call& call, bool wanted, bool by_attribute) {
  const std::size_t rest = by_attribute ? 2 : 1;
  if (call.positional.size() < rest) call.in.refuse(fmt::format("{} needs the name of an attribute", call.name));
  std::vector<Value> out;
  for (const Value& item : items_if_any(call.positional[0], call.in)) {
    const Value looked_at = by_attribute ? path_of(item, call.positional[1], call.in) : item;
    bool passes = truth(looked_at);
    if (call.positional.size() > rest) {
      Call each{.in = call.in, .name = call.in.printed(call.positional[rest]), .positional = {looked_at}, .named = call.named};
      each.positional.insert(each.positional.end(), call.positional.begin() + static_cast<std::ptrdiff_t>(rest) + 1,
                             call.positional.end());
      passes = call.in.test(std::move(each));
    }
    if (passes == wanted) out.push_back(item);
  }
  return call.in.list(std::move(out), ListKind::generator);
}

Value replace(Call& call) {
  const auto a = call.bind({"s", "old", "new", "count"}, 3);
  const std::int64_t most = given(a[3]) ? call.in.whole(*a[3], "count") : -1;
  const std::string text = call.in.printed(*a[0]), by = call.in.printed(*a[2]);
  call.in.charge((text.size() + 1) * (by.size() + 1) / 8);
  return call.in.text(replaced(text, call.in.printed(*a[1]), by, most));
}

Value indent(Call& call) {
  const auto a = call.bind({"s", "width", "first", "blank"}, 1);
  std::string space = "    ";
  if (a[1] != nullptr)
    space = a[1]->text() != nullptr
                ? *a[1]->text()
                : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(call.in.whole(*a[1], "width"), 0, 10000)), ' ');
  call.in.demand(*a[0]);
  if (a[0]->text() == nullptr) call.in.refuse(fmt::format("indent takes a str, found {}", described(*a[0])));
  const std::string text = *a[0]->text() + "\n";
  std::vector<std::string_view> lines = lines_of(text, false);
  call.in.charge(lines.size() * (space.size() + 8) / 8);
  std::string out(flag(a[2]) ? space : "");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += flag(a[3]) || !lines[i].empty() ? "\n" + space : "\n";
    out += lines[i];
  }
  return call.in.text(std::move(out));
}

Value to_whole(Call& call) {
  const auto a = call.bind({"value", "default", "base"}, 1);
  Value otherwise = a[1] != nullptr ? *a[1] : Value(std::int64_t{0});
  call.in.demand(*a[0]);
  std::optional<double> real = a[0]->number();
  if (const std::string* text = a[0]->text()) {
    if (a[2] != nullptr && call.in.whole(*a[2], "base") != 10) call.in.refuse("another base than 10 is not known");
    if (const auto whole = whole_from(*text)) return *whole;
    real = real_from(*text);
  } else if (const auto whole = a[0]->integer()) {
    return *whole;
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  if (std::abs(*real) >= 9.2e18) call.in.refuse("an integer beyond 64 bits");
  return static_cast<std::int64_t>(*real);
}

Value to_real(Call& call) {
  const auto a = call.bind({"value", "default"}, 1);
  call.in.demand(*a[0]);
  const std::optional<double> real = a[0]->text() != nullptr ? real_from(*a[0]->text()) : a[0]->number();
  return real ? Value(*real) : a[1] != nullptr ? *a[1] : Value(0.0);
}

Value absolute(Call& call) {
  const Value& value = *call.bind({"x"}, 1)[0];
  if (const double* real = value.as<double>()) return std::abs(*real);
  const std::int64_t whole = call.in.whole(value, "a number");
  return whole < 0 ? call.in.binary("-", std::int64_t{0}, whole) : Value(whole);
}

Value round(Call& call) {
  const auto a = call.bind({"value", "precision", "method"}, 1);
  call.in.demand(*a[0]);
  const std::string method = a[2] != nullptr ? call.in.printed(*a[2]) : "common";
  const std::int64_t precision = a[1] != nullptr ? call.in.whole(*a[1], "precision") : 0;
  const auto number = a[0]->number();
  if (!number) call.in.refuse(fmt::format("{} cannot be rounded", described(*a[0])));
  if (precision < 0 || precision > 15) call.in.refuse("a precision below 0 or above 15 is not known");
  if (method == "common") {
    if (const auto whole = a[0]->integer()) return *whole;
    return real_from(fmt::format("{:.{}f}", *number, precision)).value_or(*number);
  }
  if (method != "ceil" && method != "floor") call.in.refuse("the method is 'common', 'ceil' or 'floor'");
  double scale = 1;
  for (std::int64_t i = 0; i < precision; ++i) scale *= 10;
  return (method == "ceil" ? std::ceil(*number * scale) : std::floor(*number * scale)) / scale;
}

Value tojson(Call& call) {
  const auto a = call.bind({"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style{.ascii = flag(a[1]), .sorted = flag(a[4])};
  if (given(a[2])) {
    const std::string* text = a[2]->text();
    style.indent =
        text != nullptr
            ? *text
            : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(call.in.whole(*a[2], "indent"), 0, 100)), ' ');
    style.item_separator = ",";
  }
  if (given(a[3])) {
    const std::vector<Value> both = call.in.items(*a[3]);
    if (both.size() != 2 || both[0].text() == nullptr || both[1].text() == nullptr) call.in.refuse("separators are two strings");
    style.item_separator = *both[0].text(), style.key_separator = *both[1].text();
  }
  return call.in.text(to_json(*a[0], style, call.in));
}

std::string title_by_filter(const std::string& text) { return titled(text, true); }

constexpr Row filters[] = {
    {"abs", absolute},
    {"capitalize", text_filter<capitalized>},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dictsort},
    {"e", [](Call& call) { return marked(call, true); }},
    {"escape", [](Call& call) { return marked(call, true); }},
    {"first", first},
    {"float", to_real},
    {"format", format_text},
    {"indent", indent},
    {"int", to_whole},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", as_list},
    {"lower", text_filter<lower>},
    {"map", map},
    {"max", [](Call& call) { return extreme(call, true); }},
    {"min", [](Call& call) { return extreme(call, false); }},
    {"reject", [](Call& call) { return chosen(call, false, false); }},
    {"rejectattr", [](Call& call) { return chosen(call, false, true); }},
    {"replace", replace},
    {"reverse", reverse},
    {"round", round},
    {"safe", [](Call& call) { return marked(call, false); }},
    {"select", [](Call& call) { return chosen(call, true, false); }},
    {"selectattr", [](Call& call) { return chosen(call, true, true); }},
    {"sort", sort},
    {"string", [](Call& call) { return call.in.text(text_of(call)); }},
    {"title", text_filter<title_by_filter>},
    {"tojson", tojson},
    {"trim", trim},
    {"unique", unique},
    {"upper", text_filter<upper>},
};

}  // namespace

Function find_filter(std::string_view name) {
  const auto found = std::ranges::find(filters, name, &Row::first);
  return found != std::end(filters) ? found->second : nullptr;
}

Value path_of(const Value& value, const Value& path, Interpreter& in) {
  if (path.text() == nullptr) return in.item(value, path);
  Value at = value;
  for (const std::string& part : parts_of_list(*path.text(), '.')) {
    const auto number = has_only(part, "isdigit") ? number_from<std::int64_t>(part) : std::nullopt;
    at = in.item(at, number ? Value(*number) : Value(part));
  }
  return at;
}

}  // namespace lockstep::data::jinja
