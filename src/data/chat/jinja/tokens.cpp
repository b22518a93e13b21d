#include "data/chat/jinja/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text/utf8.h"
#include "data/chat/jinja/python_text.h"

namespace lockstep::data::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> read() {
    while (at_ < source_.size()) read_data();
    tokens_.push_back({.kind = TokenKind::end, .at = source_.size()});
    return std::move(tokens_);
  }

 private:
  char look(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool starts(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void skip_space() { at_ = source_.size() - stripped(source_.substr(at_), Side::left).size(); }
  [[noreturn]] void refuse(const std::string& what, std::size_t at) const { refuse_at(source_, at, what, "mend the template"); }

  // Text up to the next tag, as far as the tag leaves it.
  void add_data(std::size_t begin, std::size_t end, char sign, bool prints) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      text = stripped(text, Side::right);
    } else if (sign != '+' && !prints) {
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((line > 0 || line_starts_) && stripped(text.substr(line), Side::both).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) tokens_.push_back({.kind = TokenKind::data, .text = std::string(text), .at = begin});
  }

  void read_data() {
    const std::size_t begin = at_;
    std::size_t tag = begin;
    do {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        tokens_.push_back({.kind = TokenKind::data, .text = std::string(source_.substr(begin)), .at = begin});
        at_ = source_.size();
        return;
      }
    } while (std::string_view("{%#").find(source_[++tag]) == std::string_view::npos);
    const char kind = source_[tag];
    at_ = tag + 1;
    const char sign = look() == '-' || look() == '+' ? look() : '\0';
    add_data(begin, tag - 1, sign, kind == '{');
    if (sign != '\0') ++at_;
    if (kind == '#') {
      end_with("#}", source_.find("#}", at_), tag - 1, "the comment has no end");
    } else if (kind == '{' || !read_raw(tag - 1)) {
      tokens_.push_back({.kind = kind == '{' ? TokenKind::print_begin : TokenKind::block_begin, .at = tag - 1});
      read_tag(kind == '{' ? "}}" : "%}", tag - 1);
    }
  }

  // Goes on behind a closing mark, and what white space it takes.
  void end_with(std::string_view mark, std::size_t mark_at, std::size_t begin, const std::string& fault) {
    if (mark_at == std::string_view::npos) refuse(fault, begin);
    const char sign = mark_at > at_ ? source_[mark_at - 1] : '\0';
    at_ = mark_at + mark.size();
    pass_end(sign, mark);
  }
  void pass_end(char sign, std::string_view mark) {
    const std::size_t before = at_;
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && mark != "}}" && look() == '\n') {
      ++at_;
    }
    line_starts_ = at_ > before && source_[at_ - 1] == '\n';
  }

  // Passes "endraw %}" or the like; the sign at its end, or nothing where it is something else.
  std::optional<char> pass_word(std::string_view word) {
    skip_space();
    if (!starts(word)) return std::nullopt;
    at_ += word.size();
    skip_space();
    const char sign = look() == '-' || look() == '+' ? look() : '\0';
    if (sign != '\0') ++at_;
    if (!starts("%}")) return std::nullopt;
    at_ += 2;
    return sign;
  }
  bool read_raw(std::size_t begin) {
    const std::size_t start = at_;
    const auto opened = pass_word("raw");
    if (!opened || *opened == '+') {
      at_ = start;
      return false;
    }
    if (*opened == '-') skip_space();
    line_starts_ = source_[at_ - 1] == '\n';
    const std::size_t inside = at_;
    for (std::size_t tag = source_.find("{%", inside); tag != std::string_view::npos; tag = source_.find("{%", tag + 1)) {
      at_ = tag + 2;
      const char sign = look() == '-' || look() == '+' ? look() : '\0';
      if (sign != '\0') ++at_;
      if (const auto closed = pass_word("endraw")) {
        add_data(inside, tag, sign, false);
        pass_end(*closed, "%}");
        return true;
      }
    }
    refuse("the raw block has no end", begin);
  }

  void read_tag(std::string_view mark, std::size_t begin) {
    for (;;) {
      skip_space();
      if (at_ >= source_.size()) refuse("the tag has no end", begin);
      if (open_.empty()) {
        const bool is_signed = look() == '-' || (look() == '+' && mark == "%}");
        if (source_.substr(at_ + (is_signed ? 1 : 0)).starts_with(mark)) {
          const char sign = is_signed ? look() : '\0';
          tokens_.push_back({.kind = mark == "}}" ? TokenKind::print_end : TokenKind::block_end, .at = at_});
          at_ += mark.size() + (is_signed ? 1 : 0);
          return pass_end(sign, mark);
        }
      }
      read_token();
    }
  }

  void read_token() {
    const char c = look();
    if (is_digit(c)) return read_number();
    if (is_name_start(c)) {
      const std::size_t begin = at_;
      while (is_name(look())) ++at_;
      tokens_.push_back({.kind = TokenKind::name, .text = std::string(source_.substr(begin, at_ - begin)), .at = begin});
    } else if (c == '\'' || c == '"') {
      read_text(c);
    } else {
      read_symbol();
    }
  }

  void read_symbol() {
    static constexpr std::string_view symbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                                   "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto found = std::ranges::find_if(symbols, [&](std::string_view symbol) { return starts(symbol); });
    if (found == std::end(symbols)) {
      const std::size_t length = std::max<std::size_t>(1, code_point_at(source_, at_).length);
      refuse(fmt::format("'{}' cannot stand in a tag", source_.substr(at_, length)), at_);
    }
    const char c = found->front();
    if (found->size() == 1 && (c == '(' || c == '[' || c == '{')) open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c) refuse(fmt::format("'{}' closes nothing", c), at_);
      open_.pop_back();
    }
    tokens_.push_back({.kind = TokenKind::symbol, .text = std::string(*found), .at = at_});
    at_ += found->size();
  }

  std::string digits() {
    std::string found;
    while (is_digit(look()) || (look() == '_' && is_digit(look(1)) && !found.empty())) {
      if (look() != '_') found += look();
      ++at_;
    }
    return found;
  }
  void read_number() {
    const std::size_t begin = at_;
    if (look() == '0' && std::string_view("xXoObB").find(look(1)) != std::string_view::npos && look(1) != '\0')
      refuse("numbers with another base than ten are not known", at_);
    std::string text = digits();
    const bool behind_dot = begin > 0 && source_[begin - 1] == '.';
    bool is_real = false;
    if (!behind_dot && look() == '.' && is_digit(look(1))) {
      ++at_;
      text += '.' + digits();
      is_real = true;
    }
    const std::size_t sign = look(1) == '+' || look(1) == '-' ? 1 : 0;
    if (!behind_dot && (look() == 'e' || look() == 'E') && is_digit(look(1 + sign))) {
      text += sign == 1 && look(1) == '-' ? "e-" : "e";
      at_ += 1 + sign;
      text += digits();
      is_real = true;
    }
    Token token{.kind = is_real ? TokenKind::real : TokenKind::integer, .text = text, .at = begin};
    if (is_real) {
      token.real = real_from(text).value_or(0);
    } else if (const auto whole = number_from<std::int64_t>(text); whole && (text[0] != '0' || *whole == 0)) {
      token.integer = *whole;
    } else {
      refuse(fmt::format("{}: an integer of 64 bits without zeros before it is expected", text), begin);
    }
    tokens_.push_back(std::move(token));
  }

  void read_text(char quote) {
    const std::size_t begin = at_++;
    std::string text;
    while (look() != quote) {
      if (at_ >= source_.size()) refuse("the string has no end", begin);
      if (look() == '\\') {
        read_escape(text);
      } else {
        text += source_[at_++];
      }
    }
    ++at_;
    tokens_.push_back({.kind = TokenKind::text, .text = std::move(text), .at = begin});
  }

  void read_escape(std::string& text) {
    const std::size_t begin = at_++;
    if (at_ >= source_.size()) return;
    const char c = source_[at_++];
    static constexpr std::string_view plain = "\\'\"abfnrtv", meant = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t found = plain.find(c); found != std::string_view::npos) {
      text += meant[found];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      read_code(text, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, begin);
    } else if (c >= '0' && c <= '7') {
      std::size_t length = 1;
      while (length < 3 && look(length - 1) >= '0' && look(length - 1) <= '7') ++length;
      --at_;
      read_code(text, length, 8, begin);
    } else if (c == 'N') {
      refuse("characters by their names (\\N{...}) are not known", begin);
    } else if (c != '\n') {
      text += '\\';
      text += c;
    }
  }
  void read_code(std::string& text, std::size_t length, int base, std::size_t begin) {
    std::uint32_t code = 0;
    const std::string_view digits = source_.substr(std::min(at_, source_.size()), length);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    const bool is_whole = digits.size() == length && error == std::errc{} && end == digits.data() + length;
    if (!is_whole || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      refuse(fmt::format("{}{} is no character", source_.substr(begin, at_ - begin), digits), begin);
    append_utf8(text, code);
    at_ += length;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starts_ = true;
  std::string open_;  // what closes the brackets that are open
  std::vector<Token> tokens_;
};

}  // namespace

std::string normal_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\r' && at + 1 < source.size() && source[at + 1] == '\n') continue;
    out += source[at] == '\r' ? '\n' : source[at];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).read(); }

void refuse_at(std::string_view source, std::size_t at, const std::string& what, const std::string& remedy) {
  const std::string_view before = source.substr(0, at);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  throw UserError(fmt::format("line {}, column {}: {}", std::ranges::count(before, '\n') + 1,
                              character_count(before.substr(line_start)) + 1, what),
                  remedy);
}

}  // namespace lockstep::data::jinja
