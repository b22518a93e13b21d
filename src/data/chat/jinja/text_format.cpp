// Text with values in it, as C's printf has it: %s, %d and the like.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

}  // namespace

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
