// Functions that every template has, and JSON as Python writes it.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/text/utf8.h"
#include "data/chat/jinja/library.h"

namespace lockstep::data::jinja {
namespace {

constexpr std::int64_t longest_range = 100000;  // as Jinja's sandbox has it

Value range(Call& call) {
  const auto a = call.bind({"start", "stop", "step"}, 1);
  const auto bound = [&](std::size_t i) { return call.in.whole(*a[i], "a bound of range()"); };
  const std::int64_t start = a[1] != nullptr ? bound(0) : 0, stop = bound(a[1] != nullptr ? 1 : 0),
                     step = a[2] != nullptr ? bound(2) : 1;
  if (step == 0) call.in.refuse("the step of range() is 0");
  std::vector<Value> all;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (std::ssize(all) == longest_range) call.in.refuse(fmt::format("range() has more than {} numbers", longest_range));
    all.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return call.in.list(std::move(all), ListKind::range);
}

Dict members_of(Call& call) {
  Dict made;
  if (call.positional.size() > 1) call.in.refuse(fmt::format("{}() takes one dict", call.name));
  if (!call.positional.empty()) {
    if (const Dict* dict = call.positional[0].dict()) {
      made = *dict;
    } else {
      for (const Value& pair : call.in.items(call.positional[0])) {
        const std::vector<Value> both = call.in.items(pair);
        if (both.size() != 2 || !is_hashable(both[0]))
          call.in.refuse(fmt::format("{}() takes pairs of key and value", call.name));
        made.set(both[0], both[1]);
      }
    }
  }
  for (const auto& [name, value] : call.named) made.set(call.in.text(name), value);
  return made;
}

Value make_dict(Call& call) { return call.in.dict(members_of(call)); }

Value make_namespace(Call& call) {
  auto* const made = call.in.object<Namespace>();
  made->members = members_of(call);
  for (const auto& member : made->members.members) {
    if (member.first.text() != nullptr && member.first.text()->starts_with('_'))
      call.in.refuse(fmt::format("'{}': names of attributes do not begin with _", *member.first.text()));
  }
  return made;
}

[[noreturn]] Value raise_exception(Call& call) {
  const Value* message = call.bind({"message"}, 1)[0];
  call.in.refuse(fmt::format("the template refuses the messages: {}", call.in.printed(*message)),
                 "mend the messages, or choose another template");
}

Value strftime_now(Call& call) {
  const std::string form = call.in.printed(*call.bind({"format"}, 1)[0]);
  if (form.size() > 1000) call.in.refuse("the format of the date is too long");
  std::array<char, 20000> text{};
  const std::size_t length = form.empty() ? 0 : std::strftime(text.data(), text.size(), form.c_str(), &call.in.settings().now);
  return call.in.text(std::string(text.data(), length));
}

/// joiner(", "): nothing the first time, then the separator.
class Joiner : public Object {
 public:
  explicit Joiner(std::string separator) : separator_(std::move(separator)) {}
  std::string type() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Call& call) override { return call.in.text(std::exchange(used_, true) ? separator_ : ""); }

 private:
  std::string separator_;
  bool used_ = false;
};

Value make_joiner(Call& call) {
  const Value* separator = call.bind({"sep"})[0];
  return call.in.object<Joiner>(separator != nullptr ? call.in.printed(*separator) : ", ");
}

void add_quoted(std::string& out, std::string_view text, bool ascii) {
  out += '"';
  const auto stays = [ascii](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && c != '"' && c != '\\' && !(ascii && byte > 0x7E);
  };
  for (std::size_t at = 0; at < text.size();) {
    if (stays(text[at])) {
      const std::string_view rest = text.substr(at);
      const auto run = static_cast<std::size_t>(std::ranges::find_if_not(rest, stays) - rest.begin());
      out += rest.substr(0, run);
      at += run;
      continue;
    }
    const CodePoint point = code_point_at(text, at);
    const auto code = static_cast<unsigned>(point.value);
    static constexpr std::string_view special = "\"\\\n\r\t\b\f", letters = "\"\\nrtbf";
    if (const std::size_t found = special.find(text[at]); found != std::string_view::npos) {
      out += {'\\', letters[found]};
    } else if (code >= 0x10000 && ascii) {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10U), 0xDC00 + ((code - 0x10000) & 0x3FFU));
    } else {
      out += fmt::format("\\u{:04x}", code);
    }
    at += std::max<std::size_t>(1, point.length);
  }
  out += '"';
}

std::string json_number(const Value& value, Interpreter& in) {
  if (const double* real = value.as<double>(); real != nullptr && !std::isfinite(*real))
    return std::isnan(*real) ? "NaN" : *real > 0 ? "Infinity" : "-Infinity";
  const bool* flag = value.as<bool>();
  if (flag != nullptr) return *flag ? "true" : "false";
  return value.is<None>() ? "null" : in.represented(value);
}

void add_json(std::string& out, const Value& value, const JsonStyle& style, int level, Interpreter& in) {
  in.charge(1);
  if (const std::string* text = value.text()) {
    in.charge(text->size() / 8);
    return add_quoted(out, *text, style.ascii);
  }
  if (value.is<None>() || value.number()) {
    out += json_number(value, in);
    return;
  }
  const auto new_line = [&](int depth) {
    if (!style.indent) return;
    out += '\n';
    for (int i = 0; i < depth; ++i) out += *style.indent;
    in.charge(style.indent->size() * static_cast<std::size_t>(depth) / 8);
  };
  const auto begin_item = [&](bool first) {
    if (!first) out += style.item_separator;
    new_line(level + 1);
  };
  if (const List* list = value.list(); list != nullptr && list->kind <= ListKind::tuple) {
    out += '[';
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      begin_item(i == 0);
      add_json(out, list->items[i], style, level + 1, in);
    }
    if (!list->items.empty()) new_line(level);
    out += ']';
    return;
  }
  const Dict* dict = value.dict();
  if (dict == nullptr) in.refuse(fmt::format("{} is no JSON", described(value)));
  std::vector<std::pair<Value, Value>> members = dict->members;
  if (style.sorted) std::ranges::stable_sort(members, [&](const auto& a, const auto& b) { return in.less(a.first, b.first); });
  out += '{';
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Value& key = members[i].first;
    begin_item(i == 0);
    if (key.text() == nullptr && !key.is<None>() && !key.number()) in.refuse(fmt::format("{} is no key of JSON", described(key)));
    add_quoted(out, key.text() != nullptr ? *key.text() : json_number(key, in), style.ascii);
    out += style.key_separator;
    add_json(out, members[i].second, style, level + 1, in);
  }
  if (!members.empty()) new_line(level);
  out += '}';
}

}  // namespace

std::optional<Value> Namespace::attribute(std::string_view name, Interpreter& /*in*/) {
  const Value* found = members.named(name);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

void add_functions(Interpreter& in, Scope& scope) {
  static constexpr std::pair<std::string_view, Function> functions[] = {{"range", range},
                                                                        {"dict", make_dict},
                                                                        {"namespace", make_namespace},
                                                                        {"raise_exception", raise_exception},
                                                                        {"strftime_now", strftime_now},
                                                                        {"joiner", make_joiner}};
  for (const auto& [name, function] : functions) scope.set(name, in.object<FunctionObject>(std::string(name), function));
}

std::string to_json(const Value& value, const JsonStyle& style, Interpreter& in) {
  std::string out;
  add_json(out, value, style, 0, in);
  return out;
}

}  // namespace lockstep::data::jinja
