#include "app/plan/foreign/script_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/number_text.h"

namespace lockstep::app {
namespace {

constexpr std::size_t most_bytes = 1 << 20;
constexpr int deepest = 16;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_name(char c, bool first) {
  const auto code = static_cast<unsigned char>(c);
  return c == '_' || (first ? std::isalpha(code) : std::isalnum(code)) != 0;
}
/// The length of the variable's name that the text begins with.
std::size_t name_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && is_name(text[length], length == 0)) ++length;
  return length;
}
bool has_arguments(std::string_view text) { return text.find("--") != text.npos && std::ranges::any_of(text, is_blank); }

class Script {
 public:
  /// `quoted`: it is a word of another script, whose blanks alone part words.
  Script(std::string_view text, const std::string& file, bool quoted) : text_(text), file_(file), quoted_(quoted) {}

  std::vector<std::string> read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (is_end(c)) {
        ++at_;
      } else if (c == '\\' && next() == '\n') {
        at_ += 2;
      } else if (c == '#' && !quoted_) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        take(word());
      }
    }
    return std::move(words_);
  }

 private:
  using Values = std::map<std::string, std::string, std::less<>>;

  bool is_end(char c) const { return is_blank(c) || (!quoted_ && std::string_view(";&|()<>").find(c) != std::string_view::npos); }
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }

  /// Up to a blank that is not quoted.
  std::string word() {
    std::string word;
    char quote = '\0';
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quote == '\'') {
        c == quote ? void(quote = '\0') : word.push_back(c);
      } else if (c == '\\') {
        if (next() != '\n' && next() != '\0') word.push_back(next());
        ++at_;
      } else if (c == '$') {
        const std::size_t length = reference(text_.substr(at_), word, 0);
        at_ += length - 1;
      } else if (c == '"' || (c == '\'' && quote == '\0')) {
        quote = quote == '\0' ? c : '\0';
      } else if (quote == '\0' && is_end(c)) {
        break;
      } else {
        word.push_back(c);
      }
      bound(word.size());
    }
    return word;
  }

  /// What stands for the reference that `text` begins with; returns its length.
  std::size_t reference(std::string_view text, std::string& out, int depth) {
    if (depth > deepest) return literal(text, 1, out);
    if (text.starts_with("$((")) return sum(text, out, depth);
    if (text.starts_with("$(")) return literal(text, std::min(text.find(')'), text.size() - 1) + 1, out);
    if (text.starts_with("${")) return braced(text, out, depth);
    const std::size_t name = name_length(text.substr(1));
    const auto known = values_.find(text.substr(1, name));
    if (name == 0 || known == values_.end()) return literal(text, 1 + name, out);
    out += known->second;
    return 1 + name;
  }

  /// "$((SUM))", as reference().
  std::size_t sum(std::string_view text, std::string& out, int depth) {
    const std::size_t end = text.find("))");
    if (end == text.npos) return literal(text, 1, out);
    const std::string inside = expanded(text.substr(3, end - 3), depth + 1);
    std::string_view rest = inside;
    const auto value = added(rest, 0);
    if (!value || !behind_blanks(rest).empty()) return literal(text, end + 2, out);
    out += std::to_string(*value);
    return end + 2;
  }

  /// "${NAME}" and "${NAME:-OTHERWISE}", as reference().
  std::size_t braced(std::string_view text, std::string& out, int depth) {
    const std::size_t end = closing(text);
    const std::string_view inside = text.substr(2, end - 2);
    const std::size_t name = name_length(inside);
    const auto known = values_.find(inside.substr(0, name));
    const std::string_view rest = inside.substr(name);
    const std::size_t otherwise = rest.starts_with(":-") || rest.starts_with(":=") ? 2 : rest.starts_with("-") ? 1 : 0;
    const bool digits = name == 0 && !inside.empty() && std::isdigit(static_cast<unsigned char>(inside[0])) != 0;
    if (known != values_.end() && (rest.empty() || otherwise > 0)) {
      out += known->second;
    } else if (otherwise > 0) {
      out += expanded(rest.substr(otherwise), depth + 1);
    } else if (const std::size_t mark = inside.find(":-"); digits && mark != inside.npos) {
      out += expanded(inside.substr(mark + 2), depth + 1);
    } else {
      return literal(text, std::min(end + 1, text.size()), out);
    }
    return end + 1;
  }

  static std::size_t literal(std::string_view text, std::size_t length, std::string& out) {
    out += text.substr(0, length);
    return std::min(length, text.size());
  }
  /// The place of the brace that closes the one that the text begins with.
  static std::size_t closing(std::string_view text) {
    int open = 0;
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    return text.size() - 1;
  }
  static std::string_view behind_blanks(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    return text;
  }

  /// Without its quotes, with what its references stand for.
  std::string expanded(std::string_view text, int depth) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] == '$') {
        at += reference(text.substr(at), out, depth);
      } else {
        if (text[at] != '"' && text[at] != '\'') out.push_back(text[at]);
        ++at;
      }
      bound(out.size());
    }
    return out;
  }

  // Whole numbers and names of them; nothing for another text.
  std::optional<std::int64_t> added(std::string_view& text, int depth) {
    auto sum = multiplied(text, depth);
    for (text = behind_blanks(text); sum && !text.empty() && (text[0] == '+' || text[0] == '-'); text = behind_blanks(text)) {
      const char sign = text[0];
      text.remove_prefix(1);
      const auto more = multiplied(text, depth);
      std::int64_t value = 0;
      if (!more || (sign == '+' ? __builtin_add_overflow(*sum, *more, &value) : __builtin_sub_overflow(*sum, *more, &value)))
        return std::nullopt;
      sum = value;
    }
    return sum;
  }
  std::optional<std::int64_t> multiplied(std::string_view& text, int depth) {
    auto product = single(text, depth);
    for (text = behind_blanks(text); product && !text.empty() && (text[0] == '*' || text[0] == '/'); text = behind_blanks(text)) {
      const char sign = text[0];
      text.remove_prefix(1);
      const auto more = single(text, depth);
      if (!more) return std::nullopt;
      product = sign == '*' ? product_of({*product, *more}) : *more > 0 ? std::optional(*product / *more) : std::nullopt;
    }
    return product;
  }
  std::optional<std::int64_t> single(std::string_view& text, int depth) {
    text = behind_blanks(text);
    if (depth > deepest) return std::nullopt;
    if (text.starts_with('(')) {
      text.remove_prefix(1);
      const auto value = added(text, depth + 1);
      text = behind_blanks(text);
      if (!text.starts_with(')')) return std::nullopt;
      text.remove_prefix(1);
      return value;
    }
    std::size_t length = name_length(text);
    if (const auto known = values_.find(text.substr(0, length)); length > 0) {
      text.remove_prefix(length);
      return known == values_.end() ? std::nullopt : number_from<std::int64_t>(known->second);
    }
    while (length < text.size() && std::isdigit(static_cast<unsigned char>(text[length])) != 0) ++length;
    const auto value = number_from<std::int64_t>(text.substr(0, length));
    text.remove_prefix(length);
    return value;
  }

  void take(std::string word) {
    if (word.empty()) return;
    const std::size_t name = quoted_ ? 0 : name_length(word);
    const bool more = name > 0 && word.compare(name, 2, "+=") == 0;
    const bool sets = more || (name > 0 && word.compare(name, 1, "=") == 0);
    count(word);
    if (sets) {
      const std::string value = word.substr(name + (more ? 2 : 1));
      std::string& kept = values_[word.substr(0, name)];
      kept = more ? kept + value : value;
      count(kept);
      word = value;
    }
    if (!quoted_ && has_arguments(word)) {
      for (std::string& each : Script(word, file_, true).read()) words_.push_back(std::move(each));
    } else if (!sets) {
      words_.push_back(std::move(word));
    }
  }

  void count(const std::string& text) {
    bytes_ += text.size();
    bound(bytes_);
  }
  void bound(std::size_t bytes) const {
    if (bytes > most_bytes) too_much();
  }
  [[noreturn]] void too_much() const {
    throw UserError(fmt::format("{}: its variables make more than a megabyte of words", file_), "a file of the arguments alone");
  }

  std::string_view text_;
  const std::string& file_;
  bool quoted_;
  std::size_t at_ = 0, bytes_ = 0;
  Values values_;
  std::vector<std::string> words_;
};

}  // namespace

std::vector<std::string> script_words(std::string_view text, const std::string& file) { return Script(text, file, false).read(); }

}  // namespace lockstep::app
