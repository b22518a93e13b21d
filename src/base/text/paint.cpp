#include "base/text/paint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/terminal.h"

namespace lockstep {
namespace {

constexpr const char *off = "NO_COLOR", *forced = "CLICOLOR_FORCE";  // no-color.org, bixense.com/clicolors
constexpr std::array<std::string_view, 3> codes{"1", "1;31", "36"};  // of each Ink: bold, bold red, cyan

constexpr std::array<std::string_view, 6> curve_codes{"36", "33", "35", "32", "34", "31"};

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

}  // namespace

bool shows_colours(std::FILE* file) { return !is_set(off) && (is_set(forced) || is_terminal(file)); }

void choose_colours(std::string_view when) {
  if (when != "auto" && when != "always" && when != "never")
    throw UserError(fmt::format("--color {}: must be auto, always or never", when), "--color auto: where a terminal shows them");
  if (when == "auto") return;
  setenv(when == "always" ? forced : off, "1", 1);
  unsetenv(when == "always" ? off : forced);
}

std::string Paint::with_code(std::string_view code, std::string_view text) const {
  return on_ && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string Paint::operator()(Ink ink, std::string_view text) const {
  return with_code(codes.at(static_cast<std::size_t>(ink)), text);
}

std::string Paint::curve(std::size_t index, std::string_view text) const {
  return with_code(curve_codes.at(index % curve_codes.size()), text);
}

std::string Paint::error(std::string_view message) const {
  constexpr std::string_view arrow = "\n  -> ";
  const std::size_t colon = message.find(':');
  std::string text = (*this)(Ink::error, message.substr(0, colon + 1));
  for (std::size_t at = colon + 1; at < message.size();) {
    const std::size_t end = std::min(message.find(arrow, at), message.size());
    text += message.substr(at, end - at);
    at = end;
    if (at == message.size()) break;
    const std::size_t line_end = std::min(message.find('\n', at + 1), message.size());
    text += '\n' + (*this)(Ink::hint, message.substr(at + 1, line_end - at - 1));
    at = line_end;
  }
  return text;
}

}  // namespace lockstep
