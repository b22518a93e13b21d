#include "app/help.h"

#include <algorithm>

namespace lockstep::app {

std::string folded(std::string_view text, int columns, int indent) {
  std::string out;
  int column = indent;
  bool fresh = true;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n' || text[at] == ' ') {
      if (text[at] == '\n') {
        out += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
        column = indent;
        fresh = true;
      }
      ++at;
      continue;
    }
    const std::string_view word = text.substr(at, text.find_first_of(" \n", at) - at);
    const int length = static_cast<int>(word.size());
    if (!fresh && column + 1 + length > columns) {
      out += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent;
      fresh = true;
    }
    if (!fresh) out += ' ';
    column += length + (fresh ? 0 : 1);
    out += word;
    fresh = false;
    at += word.size();
  }
  return out;
}

std::string two_columns(const std::vector<HelpRow>& rows, int columns) {
  constexpr std::size_t kWidest = 34;
  std::size_t width = 0;
  for (const HelpRow& row : rows) {
    if (row.left.size() <= kWidest) width = std::max(width, row.left.size());
  }
  std::string out;
  for (const HelpRow& row : rows) {
    const std::size_t indent = width + 4;
    out += "  " + row.left;
    out += row.left.size() > width ? '\n' + std::string(indent, ' ') : std::string(indent - 2 - row.left.size(), ' ');
    out += folded(row.right, columns, static_cast<int>(indent)) + '\n';
  }
  return out;
}

}  // namespace lockstep::app
