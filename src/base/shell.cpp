#include "base/shell.h"

#include <errno.h>  // program_invocation_name
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace lockstep {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// As Bash reads it: $'a\nb'.
std::string escaped_word(std::string_view word) {
  std::string text = "$'";
  for (const char c : word) {
    if (c == '\'' || c == '\\') text += '\\';
    text += is_control(c) ? fmt::format("\\x{:02x}", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return text + '\'';
}

}  // namespace

std::string shell_words(const std::vector<std::string>& words) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
      text += word;
      continue;
    }
    if (std::ranges::any_of(word, is_control)) {
      text += escaped_word(word);
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::string own_command(std::vector<std::string> words) {
  words.insert(words.begin(), program_invocation_name);
  return shell_words(words);
}

}  // namespace lockstep
