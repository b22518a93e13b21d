// Text with values in it, as C's printf has it (%s, %d and the like), and as Python's str.format has it.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "base/number_text.h"
#include "data/chat/jinja/library.h"
#include "data/chat/jinja/python_text.h"

namespace lockstep::data::jinja {
namespace {

/// What stands between a % and its letter.
struct Form {
  bool left = false, zeros = false;
  std::string sign;  ///< of a number that is not negative: "+", " " or nothing
  std::size_t width = 0;
  std::optional<std::size_t> precision = std::nullopt;
};

std::size_t read_number(std::string_view form, std::size_t& at) {
  std::size_t number = 0;
  for (; at < form.size() && form[at] >= '0' && form[at] <= '9' && number < 1000; ++at)
    number = 10 * number + static_cast<std::size_t>(form[at] - '0');
  return number;
}

Form read_form(std::string_view form, std::size_t& at) {
  Form read;
  for (; at < form.size() && std::string_view("-0+ ").find(form[at]) != std::string_view::npos; ++at) {
    if (form[at] == '-') read.left = true;
    if (form[at] == '0') read.zeros = true;
    if (form[at] == '+' || form[at] == ' ') read.sign = form[at];
  }
  read.width = read_number(form, at);
  if (at < form.size() && form[at] == '.') read.precision = read_number(form, ++at);
  return read;
}

std::string number(const Form& form, char kind, const Value& value, Interpreter& in) {
  in.demand(value);
  const std::optional<double> real = value.number();
  if (!real) in.refuse(fmt::format("%{} takes a number, found {}", kind, described(value)));
  const std::string sign = !std::signbit(*real) ? form.sign : "";
  if (kind == 'f') return sign + fmt::format("{:.{}f}", *real, form.precision.value_or(6));
  const std::int64_t whole =
      value.is<double>() && std::abs(*real) < 9e18 ? static_cast<std::int64_t>(*real) : in.whole(value, "a number");
  return sign + (kind == 'x' ? fmt::format("{:x}", whole) : fmt::format("{}", whole));
}

std::string padded(const Form& form, std::string text, bool is_number) {
  const std::size_t length = character_count(text);
  if (length >= form.width) return text;
  const std::size_t missing = form.width - length;
  if (form.left) return text + std::string(missing, ' ');
  if (form.zeros && is_number) return text.insert(text.find_first_of("+- ") == 0 ? 1 : 0, missing, '0');
  return std::string(missing, ' ') + text;
}

/// What stands behind the colon of a field: [[fill]align][sign][0][width][.precision][kind].
struct FieldForm {
  std::string fill = " ";
  char align = '\0', kind = '\0';  ///< 0: not said
  Form form;
};

FieldForm read_field_form(std::string_view text, Interpreter& in) {
  FieldForm read;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^'; };
  const std::size_t first = text.empty() ? 0 : characters_of(text).front().size();
  std::size_t at = 0;
  if (first < text.size() && is_align(text[first])) {
    read.fill = text.substr(0, first), read.align = text[first], at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    read.align = text[0], at = 1;
  }
  if (at < text.size() && (text[at] == '+' || text[at] == ' ')) read.form.sign = text[at++];
  if (at < text.size() && text[at] == '0') read.form.zeros = true;
  read.form.width = read_number(text, at);
  if (at < text.size() && text[at] == '.') read.form.precision = read_number(text, ++at);
  if (at < text.size()) read.kind = text[at++];
  const bool has_width = read.form.width < 1000 && read.form.precision.value_or(0) < 100;
  if (at < text.size() || !has_width || std::string_view("\0sdxf", 5).find(read.kind) == std::string_view::npos)
    in.refuse("the format of a field is not known: s, d, x and f are, with fill, width and digits", "mend the template");
  return read;
}

std::string first_of(std::string_view text, std::size_t characters) {
  std::string first;
  for (const std::string_view character : characters_of(text) | std::views::take(static_cast<std::ptrdiff_t>(characters)))
    first += character;
  return first;
}

// `fill` on both sides, up to the width.
std::string aligned(const FieldForm& read, char align, std::string_view fill, const std::string& text) {
  const std::size_t length = character_count(text), missing = read.form.width > length ? read.form.width - length : 0;
  const std::size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  std::string out;
  for (std::size_t i = 0; i < before; ++i) out += fill;
  out += text;
  for (std::size_t i = before; i < missing; ++i) out += fill;
  return out;
}

std::string field(const FieldForm& read, const Value& value, Interpreter& in) {
  const bool is_text = value.text() != nullptr && (read.kind == 's' || read.kind == '\0') && read.form.sign.empty();
  const bool is_number = read.kind != 's' && value.number().has_value() && !value.is<bool>();
  const bool is_whole = is_number && value.integer() && !read.form.precision,
             is_plain = read.kind == '\0' && !read.form.precision;
  std::string text;
  if (is_text) {
    text = first_of(*value.text(), read.form.precision.value_or(value.text()->size()));
  } else if (is_number && read.kind == 'f') {
    text = number(read.form, 'f', value, in);
  } else if (is_whole) {
    text = number(read.form, read.kind == 'x' ? 'x' : 'd', value, in);
  } else if (is_number && is_plain) {
    text = in.represented(value);
  } else {
    in.refuse(fmt::format("a field of that format does not take {}", described(value)), "mend the template");
  }
  if (read.align != '\0') return aligned(read, read.align, read.fill, text);
  if (is_number) return padded(read.form, std::move(text), true);
  return aligned(read, '<', read.form.zeros ? "0" : " ", text);
}

/// The fields of a format, in order.
struct Fields {
  Call& call;
  std::int64_t next = 0;  ///< of those without a number; -1: they have numbers

  /// What stands between the braces: [name][!conversion][:form].
  std::string text_of(std::string_view inside) {
    Interpreter& in = call.in;
    const std::size_t colon = std::min(inside.find(':'), inside.size()), bang = std::min(inside.find('!'), colon);
    const std::string_view name = inside.substr(0, bang), conversion = inside.substr(bang, colon - bang);
    if (inside.find_first_of("{[") != inside.npos || name.find('.') != name.npos)
      in.refuse("a field of the format may only name an argument", "mend the template");
    const Value* value = argument(name);
    if (value == nullptr) in.refuse(fmt::format("the format has a field for an argument '{}' that is not given", name));
    Value shown = *value;
    if (conversion == "!r") shown = in.text(in.represented(*value));
    if (conversion == "!s") shown = in.text(in.printed(*value));
    if (!conversion.empty() && conversion != "!r" && conversion != "!s") in.refuse("the conversions !r and !s are known");
    const std::string_view form = inside.substr(std::min(colon + 1, inside.size()));
    return form.empty() ? in.printed(shown) : field(read_field_form(form, in), shown, in);
  }

 private:
  const Value* argument(std::string_view name) {
    if (name.empty() || has_only(name, "isdigit")) {
      if (name.empty() ? next < 0 : next > 0) call.in.refuse("fields with numbers do not go with fields without");
      const std::int64_t place = name.empty() ? next++ : number_from<std::int64_t>(name).value_or(-1);
      if (!name.empty()) next = -1;
      const bool given = place >= 0 && place + 1 < std::ssize(call.positional);
      return given ? &call.positional[static_cast<std::size_t>(place) + 1] : nullptr;
    }
    const auto found = std::ranges::find(call.named, name, &std::pair<std::string, Value>::first);
    return found != call.named.end() ? &found->second : nullptr;
  }
};

}  // namespace

Value format_fields(Call& call) {
  const std::string form = *call.positional.at(0).text();
  Fields fields{call};
  std::string out;
  for (std::size_t at = 0; at < form.size(); ++at) {
    const char c = form[at];
    if (c != '{' && c != '}') {
      out += c;
    } else if (at + 1 < form.size() && form[at + 1] == c) {
      out += form[++at];
    } else {
      const std::size_t end = c == '{' ? form.find('}', at) : form.npos;
      if (end == form.npos) call.in.refuse("a brace of the format stands alone: write {{ or }} for one");
      out += fields.text_of(std::string_view(form).substr(at + 1, end - at - 1));
      at = end;
    }
    call.in.charge(2);
  }
  return call.in.text(std::move(out));
}

Value format_text(Call& call) {
  const std::string form = call.in.printed(call.positional.at(0));
  std::string out;
  std::size_t next = 1;
  for (std::size_t at = 0; at < form.size(); ++at) {
    if (form[at] != '%') {
      out += form[at];
      continue;
    }
    const Form read = read_form(form, ++at);
    const char kind = at < form.size() ? form[at] : '\0';
    if (kind == '%') {
      out += '%';
      continue;
    }
    const bool is_number = std::string_view("dixf").find(kind) != std::string_view::npos, is_text = kind == 's' || kind == 'r';
    if ((!is_number && !is_text) || read.width >= 1000 || read.precision.value_or(0) >= 100 || (read.precision && kind != 'f'))
      call.in.refuse("the format is not known: %s, %r, %d, %x and %f are, with a width, and %f with digits");
    if (next >= call.positional.size()) call.in.refuse("the format needs more values");
    const Value& value = call.positional[next++];
    out += padded(read,
                  is_number     ? number(read, kind, value, call.in)
                  : kind == 's' ? call.in.printed(value)
                                : call.in.represented(value),
                  is_number);
    call.in.charge(read.width / 8);
  }
  if (next < call.positional.size()) call.in.refuse("the format has no place for all values");
  return call.in.text(std::move(out));
}

}  // namespace lockstep::data::jinja
