#include "data/chat/jinja/python_text.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text/utf8.h"
#include "data/chat/jinja/letter_case.h"
#include "data/pattern/character_set.h"

namespace lockstep::data::jinja {
namespace {

bool is_letter(char32_t point) {
  static const pattern::CharacterSet letters = pattern::category("L");
  return letters.has(point);
}

bool is_number(char32_t point) {
  static const pattern::CharacterSet numbers = pattern::category("N");
  return numbers.has(point);
}

char32_t point_of(std::string_view character) { return code_point_at(character, 0).value; }

template <class Map>
std::string mapped(std::string_view text, Map map) {
  std::string out;
  out.reserve(text.size());
  for (const std::string_view character : characters_of(text)) map(out, point_of(character));
  return out;
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && is_continuation(text[at])) --at;
  return at;
}

}  // namespace

bool is_space(char32_t point) {
  static const pattern::CharacterSet spaces = pattern::spaces();
  return spaces.has(point) || (point >= 0x1C && point <= 0x1F);
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); }));
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && is_continuation(text[end])) ++end;
    all.push_back(text.substr(at, end - at));
    at = end;
  }
  return all;
}

std::string_view stripped(std::string_view text, Side side, std::optional<std::string_view> set) {
  const std::vector<std::string_view> all = set ? characters_of(*set) : std::vector<std::string_view>{};
  const auto goes = [&](std::string_view character) {
    return set ? std::ranges::find(all, character) != all.end() : is_space(point_of(character));
  };
  while (side != Side::right && !text.empty()) {
    std::size_t length = 1;
    while (length < text.size() && is_continuation(text[length])) ++length;
    if (!goes(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (side != Side::left && !text.empty()) {
    const std::size_t last = last_character(text);
    if (!goes(text.substr(last))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, std::int64_t most) {
  std::vector<std::string_view> parts;
  const auto may_cut = [&] { return most < 0 || std::ssize(parts) < most; };
  if (separator) {
    for (std::size_t found; may_cut() && (found = text.find(*separator)) != std::string_view::npos;) {
      parts.push_back(text.substr(0, found));
      text.remove_prefix(found + separator->size());
    }
    parts.push_back(text);
    return parts;
  }
  while (!(text = stripped(text, Side::left)).empty()) {
    if (!may_cut()) {
      parts.push_back(text);
      break;
    }
    std::size_t end = 0;
    while (end < text.size() && !is_space(code_point_at(text, end).value))
      end += std::max<std::size_t>(1, code_point_at(text, end).length);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> split_from_right(std::string_view text, std::optional<std::string_view> separator,
                                               std::int64_t most) {
  std::vector<std::string_view> parts;
  const auto may_cut = [&] { return most < 0 || std::ssize(parts) < most; };
  if (separator) {
    for (std::size_t found; may_cut() && (found = text.rfind(*separator)) != std::string_view::npos;) {
      parts.push_back(text.substr(found + separator->size()));
      text = text.substr(0, found);
    }
    parts.push_back(text);
  } else {
    while (!(text = stripped(text, Side::right)).empty()) {
      std::size_t begin = may_cut() ? text.size() : 0;
      while (begin > 0 && !is_space(point_of(text.substr(last_character(text.substr(0, begin))))))
        begin = last_character(text.substr(0, begin));
      parts.push_back(text.substr(begin));
      text = text.substr(0, begin);
    }
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0, at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const char32_t c = point.value;
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    const std::size_t end = at;
    at += std::max<std::size_t>(1, point.length);
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    if (ends || at == text.size()) {
      lines.push_back(text.substr(begin, (ends && !keep_ends ? end : at) - begin));
      begin = at;
    }
  }
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by, std::int64_t most) {
  std::string out;
  if (old.empty()) {  // between all characters
    for (const std::string_view character : characters_of(text)) {
      if (most != 0) out += by;
      if (most > 0) --most;
      out += character;
    }
    return most != 0 ? out += by : out;
  }
  for (std::size_t found; most != 0 && (found = text.find(old)) != std::string_view::npos; --most) {
    out += text.substr(0, found);
    out += by;
    text.remove_prefix(found + old.size());
  }
  return out += text;
}

std::string upper(std::string_view text) {
  return mapped(text, [](std::string& out, char32_t point) { append_upper(out, point); });
}

std::string lower(std::string_view text) {
  return mapped(text, [](std::string& out, char32_t point) { append_lower(out, point); });
}

std::string capitalized(std::string_view text) {
  bool first = true;
  return mapped(text, [&](std::string& out, char32_t point) {
    first ? append_upper(out, point) : append_lower(out, point);
    first = false;
  });
}

std::string titled(std::string_view text, bool by_filter) {
  bool inside = false;
  return mapped(text, [&](std::string& out, char32_t point) {
    inside ? append_lower(out, point) : append_upper(out, point);
    inside = by_filter ? !is_space(point) &&
                             (point > 0x7F || std::string_view("-({[<").find(static_cast<char>(point)) == std::string_view::npos)
                       : is_letter(point);
  });
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    static constexpr std::string_view special = "&<>'\"";
    static constexpr const char* entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const std::size_t found = special.find(c);
    found == std::string_view::npos ? out += c : out += entities[found];
  }
  return out;
}

bool has_only(std::string_view text, std::string_view what) {
  const std::vector<std::string_view> all = characters_of(text);
  const auto each = [&](auto is) {
    return !all.empty() && std::ranges::all_of(all, [&](std::string_view c) { return is(point_of(c)); });
  };
  if (what == "isspace") return each(is_space);
  if (what == "isalpha") return each(is_letter);
  if (what == "isalnum") return each([&](char32_t point) { return is_letter(point) || is_number(point); });
  if (what == "isascii") return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (what == "isupper") return upper(text) == text && lower(text) != text;
  if (what == "islower") return lower(text) == text && upper(text) != text;
  if (what == "istitle") return titled(text, false) == text && lower(text) != upper(text);
  return each(is_number);
}

std::optional<double> real_from(std::string_view text) {
  std::string plain(stripped(text, Side::both));
  for (std::size_t at = 1; at + 1 < plain.size(); ++at) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (plain[at] == '_' && is_digit(plain[at - 1]) && is_digit(plain[at + 1])) plain.erase(at, 1);
  }
  std::string_view rest = plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest.front() == '-') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || rest.find('(') != std::string_view::npos) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    const std::size_t exponent = rest.find_first_of("eE");
    const bool small = exponent != std::string_view::npos && rest.substr(exponent + 1).starts_with('-');
    value = small ? 0 : std::numeric_limits<double>::infinity();
  } else if (error != std::errc{}) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<std::int64_t> whole_from(std::string_view text) {
  std::string plain(stripped(text, Side::both));
  std::erase(plain, '_');
  if (plain.starts_with('+') && !plain.starts_with("+-")) plain.erase(0, 1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc{} || end != plain.data() + plain.size()) return std::nullopt;
  return value;
}

}  // namespace lockstep::data::jinja
