#include "base/text/columns.h"

#include <algorithm>

namespace lockstep {

namespace {

/// How much of a word goes into `room` characters: all of it, or up to a sign behind which a line may end.
std::size_t piece_of(std::string_view word, std::size_t room) {
  if (word.size() <= room) return word.size();
  const std::size_t sign = word.substr(0, room).find_last_of("|,/;");
  return sign == word.npos ? word.size() : sign + 1;
}

std::string folded_line(std::string_view line, int columns, int indent) {
  std::string out;
  int column = indent;
  const auto room = static_cast<std::size_t>(std::max(columns - indent, 1));
  for (std::size_t at = 0; at < line.size();) {
    const std::string_view whole = line.substr(at, line.find(' ', at) - at);
    const std::string_view word = whole.substr(0, piece_of(whole, room));
    const bool glued = at > 0 && line[at - 1] != ' ';  // to the piece before
    at += word.size() + (word.size() == whole.size() ? 1 : 0);
    if (word.empty()) continue;
    const int length = static_cast<int>(word.size());
    const bool fresh = column == indent;
    const int blank = fresh || glued ? 0 : 1;
    if (!fresh && column + blank + length > columns) {
      out += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (blank == 1) {
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

std::string folded_command(std::string_view command, int columns, int indent) {
  std::string out(static_cast<std::size_t>(indent), ' ');
  const std::string further(static_cast<std::size_t>(indent + 4), ' ');
  int column = indent;
  for (std::size_t at = 0; at < command.size();) {
    std::size_t end = at;  // of the word: a blank inside quotes is a part of it
    for (bool quoted = false; end < command.size() && (quoted || command[end] != ' '); ++end) quoted ^= command[end] == '"';
    const int length = static_cast<int>(end - at);
    const int spared = end < command.size() ? 2 : 0;  // for " \\"
    if (at > 0 && column + 1 + length + spared > columns) {
      out += " \\\n" + further;
      column = indent + 4;
    } else if (at > 0) {
      out += ' ';
      ++column;
    }
    out += command.substr(at, end - at);
    column += length;
    at = end + 1;
  }
  return out;
}

std::string two_columns(const std::vector<HelpRow>& rows, int columns) {
  const auto widest = static_cast<std::size_t>(std::clamp(columns / 3, 4, 34));
  std::size_t width = 0;
  for (const HelpRow& row : rows) {
    if (row.left.size() <= widest) width = std::max(width, row.left.size());
  }
  std::string out;
  for (const HelpRow& row : rows) {
    const std::size_t indent = width + 4;
    out += "  " + folded(row.left, columns, 6);
    out += row.left.size() > width ? '\n' + std::string(indent, ' ') : std::string(indent - 2 - row.left.size(), ' ');
    out += folded(row.right, columns, static_cast<int>(indent)) + '\n';
  }
  return out;
}

}  // namespace lockstep
