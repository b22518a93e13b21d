#include "base/text/columns.h"

#include <algorithm>

namespace lockstep {

namespace {

std::string folded_line(std::string_view line, int columns, int indent) {
  std::string out;
  int column = indent;
  for (std::size_t at = 0; at < line.size();) {
    const std::string_view word = line.substr(at, line.find(' ', at) - at);
    at += word.size() + 1;
    if (word.empty()) continue;
    const int length = static_cast<int>(word.size());
    const bool fresh = column == indent;
    if (!fresh && column + 1 + length > columns) {
      out += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (!fresh) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
  }
  return out;
}

}  // namespace

std::string folded(std::string_view text, int columns, int indent) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (at > 0) out += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
    out += line.starts_with(' ') ? std::string(line) : folded_line(line, columns, indent);
    at += line.size() + 1;
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

}  // namespace lockstep
