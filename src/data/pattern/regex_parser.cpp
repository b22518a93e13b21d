// From the text of a pattern to a program. A part's jumps are relative, so parts are put together by appending them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/number_text.h"
#include "data/pattern/regex.h"

namespace lockstep::data::pattern {
namespace {

using Op = Instruction::Op;

// Far above what published patterns have: a hostile file takes neither memory nor time.
constexpr std::size_t most_sets = 64, most_code = 2000;
constexpr int deepest = 40;
constexpr std::uint32_t no_limit = ~std::uint32_t{0}, most_repeats = 1000;

struct Part {
  std::vector<Instruction> code;
  bool empty = true;  // whether it may match no character
};

bool is_ascii_letter(char32_t c) { return (c | 0x20U) >= 'a' && (c | 0x20U) <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Program parse() {
    Part whole = alternatives(0);
    if (at_ < text_.size()) refuse("an unexpected )");
    whole.code.push_back({.op = Op::match});
    program_.code = std::move(whole.code);
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(fmt::format("its pattern has {}, which is not supported, at byte {} of {}", what, at_, text_),
                    "use a tokenizer with another pattern");
  }
  bool more() const { return at_ < text_.size(); }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  char32_t character() {
    if (!more()) refuse("no end");
    const CodePoint point = character_at(text_, at_);
    if (point.value == no_character) refuse("a byte that is not valid UTF-8");
    at_ += point.length;
    return point.value;
  }

  void append(Part& part, const Part& next) const {
    if (part.code.size() + next.code.size() > most_code) refuse(fmt::format("more than {} steps", most_code));
    part.code.insert(part.code.end(), next.code.begin(), next.code.end());
    part.empty = part.empty && next.empty;
  }
  static Part jump(Op op, std::size_t by) { return {{{.op = op, .jump = static_cast<std::int32_t>(by)}}, true}; }

  Part alternatives(int depth) {
    if (depth > deepest) refuse("too many groups in each other");
    Part part = sequence(depth);
    if (!take("|")) return part;
    return either(part, alternatives_behind(depth));
  }
  Part either(const Part& first, const Part& second) const {
    Part both = jump(Op::split, first.code.size() + 2);
    append(both, first);
    append(both, jump(Op::jump, second.code.size() + 1));
    append(both, second);
    both.empty = first.empty || second.empty;
    return both;
  }
  // A long list is no deep one, but its calls are.
  Part alternatives_behind(int depth) {
    if (++alternatives_ > 400) refuse("more than 400 alternatives");
    return alternatives(depth);
  }

  Part sequence(int depth) {
    Part part;
    last_literal_ = 0;
    while (more() && text_[at_] != '|' && text_[at_] != ')') append(part, repeated(atom(depth)));
    return part;
  }

  Part atom(int depth) {
    if (take("(?<=")) return behind(Op::behind, depth);
    if (take("(?<!")) return behind(Op::unbehind, depth);
    if (take("(")) return group(depth);
    if (take("\\b")) return {{{.op = Op::border, .set = number_of(oniguruma_words(false))}}, true};
    if (take("\\B")) return {{{.op = Op::inside, .set = number_of(oniguruma_words(false))}}, true};
    CharacterSet set;
    if (take("[")) {
      set = characters(depth);
    } else if (take(".")) {
      set.add('\n', '\n');
      set.invert();
    } else if (take("\\")) {
      if (const std::optional<char32_t> literal = escape(set, false)) add_literal(set, *literal);
    } else if (constexpr std::string_view special = "^$*+?{"; special.find(text_[at_]) != std::string_view::npos) {
      refuse(fmt::format("the operator {}", text_[at_]));
    } else {
      add_literal(set, character());
    }
    return {{{.op = Op::set, .set = number_of(std::move(set))}}, false};
  }

  Part group(int depth) {
    const bool any_case = any_case_;
    Op op = Op::match;
    if (take("?")) {
      if (take("i:"))
        any_case_ = true;
      else if (take("="))
        op = Op::look;
      else if (take("!"))
        op = Op::avoid;
      else if (!take(":"))
        refuse(fmt::format("a group that begins with (?{}", text_.substr(at_, 2)));
    }
    Part inner = alternatives(depth + 1);
    end_group(any_case);
    return op == Op::match ? inner : looking(op, inner);
  }
  void end_group(bool any_case) {
    if (!take(")")) refuse("a group without an end");
    any_case_ = any_case;
    last_literal_ = 0;
  }
  Part looking(Op op, const Part& inner) const {
    Part part = jump(op, inner.code.size() + 2);
    append(part, inner);
    append(part, {{{.op = Op::match}}, true});
    part.empty = true;
    return part;
  }

  // Alternatives of different lengths are looked for one by one.
  Part behind(Op op, int depth) {
    const bool any_case = any_case_;
    Part all;
    do {
      const Part inner = sequence(depth + 1);
      Part one = looking(op, inner);
      one.code[0].least = characters_in(inner);
      if (!all.code.empty() && op == Op::behind) {
        all = either(all, one);
      } else {
        append(all, one);  // of those that must not match, none may
      }
    } while (take("|"));
    end_group(any_case);
    return all;
  }
  std::uint32_t characters_in(const Part& part) const {
    std::uint32_t count = 0;
    for (const auto& [op, set, by, least, most] : part.code) {
      if (op >= Op::look) refuse("a look within a look behind");
      if (op > Op::all || least != most) refuse("a look behind at what may have several lengths");
      count += least;
    }
    return count;
  }

  std::uint16_t number_of(CharacterSet set) {
    const auto found = std::ranges::find(program_.sets, set);
    const auto number = static_cast<std::uint16_t>(found - program_.sets.begin());
    if (found == program_.sets.end()) {
      if (number == most_sets) refuse(fmt::format("more than {} kinds of characters", most_sets));
      program_.sets.push_back(std::move(set));
    }
    return number;
  }

  // Where case does not matter, Unicode also has a long s and the sign of Kelvin, and ligatures of two letters.
  void add_literal(CharacterSet& set, char32_t c) {
    if (any_case_ && c >= 0x80) refuse("a character beyond ASCII whose case does not matter");
    set.add(c, c);
    const char32_t last = std::exchange(last_literal_, c);
    if (!any_case_ || !is_ascii_letter(c)) return;
    constexpr std::array<std::string_view, 5> ligatures{"ss", "st", "ff", "fi", "fl"};
    const std::string pair{static_cast<char>(last | 0x20U), static_cast<char>(c | 0x20U)};
    if (std::ranges::find(ligatures, pair) != ligatures.end()) refuse("a ligature whose case does not matter");
    set.add(c ^ 0x20U, c ^ 0x20U);
    if (pair[1] == 's') set.add(0x17F, 0x17F);
    if (pair[1] == 'k') set.add(0x212A, 0x212A);
  }

  // Behind a backslash: a character, or nothing when it was a class, which is added.
  std::optional<char32_t> escape(CharacterSet& set, bool bracketed) {
    last_literal_ = 0;
    const char32_t c = character();
    CharacterSet kind;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'u':
        return hexadecimal(4);
      case 'x':
        return take("{") ? hexadecimal(0) : hexadecimal(2);
      case 'p':
      case 'P':
        kind = property();
        break;
      case 's':
      case 'S':
        kind = spaces();
        break;
      case 'd':
      case 'D':
        kind.add_category("Nd");
        break;
      case 'w':
      case 'W':
        kind = oniguruma_words(bracketed);
        break;
      default:
        if (is_ascii_letter(c) || (c < 0x80 && is_digit(static_cast<char>(c)))) {
          refuse(fmt::format("\\{}", static_cast<char>(c)));
        }
        return c;
    }
    if (c < 'a') kind.invert();
    set |= kind;
    return std::nullopt;
  }

  char32_t hexadecimal(std::size_t digits) {
    const std::size_t end = digits == 0 ? std::min(text_.find('}', at_), text_.size()) : std::min(at_ + digits, text_.size());
    std::uint32_t value = 0;
    const auto [read, error] = std::from_chars(text_.data() + at_, text_.data() + end, value, 16);
    if (error != std::errc{} || read != text_.data() + end || value >= no_character || (value >= 0x80 && digits == 2)) {
      refuse("a character of no such number");
    }
    at_ = digits == 0 ? end + 1 : end;
    return value;
  }

  CharacterSet property() {
    if (!take("{")) refuse("\\p without a name");
    const bool inverted = take("^");
    const std::size_t end = std::min(text_.find('}', at_), text_.size());
    const std::string_view name = text_.substr(at_, end - at_);
    CharacterSet set;
    if (name.size() > 2 || !set.add_category(name)) refuse(fmt::format("the property {}", name));
    at_ = end + 1;
    if (inverted) set.invert();
    return set;
  }

  // Behind the bracket.
  CharacterSet characters(int depth) {
    if (depth > deepest) refuse("too many classes in each other");
    const bool inverted = take("^");
    std::optional<CharacterSet> common;
    CharacterSet set;
    const auto meet = [&] {
      if (any_case_ && !add_other_case(set)) refuse("a class beyond ASCII whose case does not matter");
      if (common) set &= *common;
    };
    for (bool first = true; first || !take("]"); first = false) {
      if (first && take("]")) refuse("a class that begins with ]");
      if (take("[:")) refuse("a class [: :]");
      if (take("[")) {
        set |= characters(depth + 1);
      } else if (take("&&")) {
        meet();
        common = std::exchange(set, CharacterSet());
      } else {
        add_range(set);
      }
    }
    meet();
    if (inverted) set.invert();
    return set;
  }

  void add_range(CharacterSet& set) {
    std::optional<char32_t> first = take("\\") ? escape(set, true) : character();
    if (!first) return;
    char32_t last = *first;
    if (text_.substr(at_).starts_with('-') && !text_.substr(at_).starts_with("-]")) {
      ++at_;
      CharacterSet none;
      const std::optional<char32_t> end = take("\\")                           ? escape(none, true)
                                          : text_.substr(at_).starts_with('[') ? std::nullopt
                                                                               : std::optional(character());
      if (!end || *end < *first) refuse("a range that ends with no character, or an earlier one");
      last = *end;
    }
    set.add(*first, last);
  }

  struct Repeats {
    std::uint32_t least = 1, most = 1;
    bool lazy = false, possessive = false;
  };

  std::optional<std::uint32_t> number() {
    const std::size_t begin = at_;
    while (more() && is_digit(text_[at_])) ++at_;
    if (begin == at_) return std::nullopt;
    const auto value = number_from<std::uint32_t>(text_.substr(begin, at_ - begin));
    if (!value || *value > most_repeats) refuse(fmt::format("more than {} repeats", most_repeats));
    return value;
  }

  std::optional<Repeats> repeats() {
    if (take("*")) return with_mode({0, no_limit});
    if (take("+")) return with_mode({1, no_limit});
    if (take("?")) return with_mode({0, 1});
    if (!take("{")) return std::nullopt;
    const std::optional<std::uint32_t> least = number();
    const std::optional<std::uint32_t> most = !take(",") ? least : text_.substr(at_).starts_with('}') ? no_limit : number();
    if (!take("}") || !most || *most == 0 || least.value_or(0) > *most) refuse("the operator {");
    if (text_.substr(at_).starts_with('?')) refuse("a lazy {}");
    if (least == 1 && take("+")) return Repeats{1, no_limit};  // Oniguruma reads {1,3}+ as one or more of {1,3}
    return Repeats{least.value_or(0), *most};
  }
  Repeats with_mode(Repeats repeats) {
    repeats.lazy = take("?");
    repeats.possessive = !repeats.lazy && take("+");
    return repeats;
  }

  Part repeated(Part part) {
    const std::optional<Repeats> times = repeats();
    if (!times) return part;
    last_literal_ = 0;
    if (more() && std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) refuse("an operator behind another one");
    const bool single = part.code.size() == 1 && part.code[0].op == Op::set;
    if (single && !times->lazy) {
      part.code[0].op = times->possessive ? Op::all : Op::run;
      part.code[0].least = times->least;
      part.code[0].most = times->most;
      part.empty = times->least == 0;
      return part;
    }
    if (times->possessive) refuse("a group that never gives up what it took");
    if (part.empty) refuse("a repeated group that may be empty");
    const Op op = times->lazy ? Op::skip : Op::split;
    Part all;
    for (std::uint32_t i = 0; i < times->least; ++i) append(all, part);
    if (times->most == no_limit) {
      append(all, jump(op, part.code.size() + 2));
      append(all, part);
      append(all, {{{.op = Op::jump, .jump = -static_cast<std::int32_t>(part.code.size() + 1)}}, true});
    } else {
      for (std::uint32_t i = times->least; i < times->most; ++i) {
        append(all, jump(op, part.code.size() + 1));
        append(all, part);
      }
    }
    all.empty = times->least == 0;
    return all;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool any_case_ = false;
  int alternatives_ = 0;
  char32_t last_literal_ = 0;  // directly before, in the same group
  Program program_;
};

}  // namespace

Program parse_pattern(std::string_view pattern) { return Parser(pattern).parse(); }

std::string quoted(std::string_view text) {
  std::string pattern;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = character_at(text, at);
    pattern += fmt::format("\\x{{{:x}}}", static_cast<std::uint32_t>(point.value));
    at += point.length;
  }
  return pattern;
}

}  // namespace lockstep::data::pattern
