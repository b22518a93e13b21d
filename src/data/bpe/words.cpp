#include "data/bpe/words.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/text/lower.h"

namespace lockstep::data::bpe {
namespace {

constexpr std::array<std::pair<Pattern, std::string_view>, 3> regexes{
    {{Pattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
     {Pattern::llama3,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     {Pattern::qwen2,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}};

bool is_line_break(char byte) { return byte == '\r' || byte == '\n'; }

// Bytes of the contraction at `at`, where an apostrophe stands; 0 when there is none.
std::size_t contraction(std::string_view text, std::size_t at, bool any_case) {
  const auto letter = [&](std::size_t i) {
    const char byte = at + i < text.size() ? text[at + i] : '\0';
    return any_case ? lower(byte) : byte;
  };
  const char first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const char second = letter(2);
  if ((first == 'l' && second == 'l') || (second == 'e' && (first == 'r' || first == 'v'))) return 3;
  // The long s is an s when case does not matter.
  return any_case && text.substr(at + 1, 2) == "\xC5\xBF" ? 3 : 0;
}

bool is_letter_or_digit(char byte) { return (lower(byte) >= 'a' && lower(byte) <= 'z') || (byte >= '0' && byte <= '9'); }

}  // namespace

std::string_view regex_of(Pattern pattern) {
  return std::find_if(regexes.begin(), regexes.end(), [&](const auto& entry) { return entry.first == pattern; })->second;
}

std::optional<Pattern> pattern_of(std::string_view regex) {
  for (const auto& [pattern, text] : regexes) {
    if (text == regex) return pattern;
  }
  return std::nullopt;
}

std::size_t Words::end(std::string_view text, std::size_t at) const {
  return pattern_ == Pattern::gpt2 ? gpt2_end(text, at) : llama_end(text, at);
}

std::size_t Words::gpt2_end(std::string_view text, std::size_t at) const {
  const char byte = text[at];
  if (byte == '\'') {
    if (const std::size_t length = contraction(text, at, false); length != 0) return at + length;
  }
  std::size_t start = at;
  Character first = characters_.at(text, at);
  if (byte == ' ' && at + 1 < text.size()) first = characters_.at(text, ++start);
  if (first.kind == Kind::space) return spaces_end(text, at);
  return characters_.run(text, start + first.length, first.kind);
}

std::size_t Words::llama_end(std::string_view text, std::size_t at) const {
  const char byte = text[at];
  if (byte == '\'') {
    if (const std::size_t length = contraction(text, at, true); length != 0) return at + length;
  }
  const Character first = characters_.at(text, at);
  if (first.kind == Kind::letter) return characters_.run(text, at + first.length, Kind::letter);
  const std::size_t after = at + first.length;
  if (first.kind == Kind::number) {
    std::size_t end = after;
    for (int digits = pattern_ == Pattern::llama3 ? 2 : 0; digits > 0 && end < text.size(); --digits) {
      const Character next = characters_.at(text, end);
      if (next.kind != Kind::number) break;
      end += next.length;
    }
    return end;
  }
  const Character next = after < text.size() ? characters_.at(text, after) : Character{Kind::space, 0};
  if (next.kind == Kind::letter && !is_line_break(byte)) return characters_.run(text, after + next.length, Kind::letter);
  if (first.kind == Kind::other || (byte == ' ' && next.kind == Kind::other)) {
    std::size_t end = characters_.run(text, after, Kind::other);
    while (end < text.size() && is_line_break(text[end])) ++end;
    return end;
  }
  return spaces_end(text, at);
}

// The end of a word of white space. With llama3 and qwen2 that is behind the last line break of the run, where it has one.
// Otherwise it is the run's end, but before its last character where another word follows.
std::size_t Words::spaces_end(std::string_view text, std::size_t at) const {
  std::size_t end = at, last = at;  // last: where the last character of the run starts
  std::size_t after_break = at;
  while (end < text.size()) {
    const Character next = characters_.at(text, end);
    if (next.kind != Kind::space) break;
    last = end;
    end += next.length;
    if (is_line_break(text[last])) after_break = end;
  }
  if (pattern_ != Pattern::gpt2 && after_break > at) return after_break;
  return end == text.size() || last == at ? end : last;
}

std::size_t word_boundary(std::string_view text, std::size_t from) {
  for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at) {
    if ((text[at] == ' ' || text[at] == '\n') && is_letter_or_digit(text[at - 1])) return at;
  }
  return std::string_view::npos;
}

}  // namespace lockstep::data::bpe
