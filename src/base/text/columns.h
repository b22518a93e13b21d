#pragma once

// Plain aligned text for a terminal: what --help prints.

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct HelpRow {
  std::string left;   // what one types
  std::string right;  // what it means
};

/// The rows as two columns behind two blanks, the right one folded at `columns`. A left side longer than a third of them, or 34
/// characters, gets its own line.
std::string two_columns(const std::vector<HelpRow>& rows, int columns = 100);

/// `text` folded at `columns` between words; a longer word is broken behind a sign of its own (a|b). Lines behind the first start
/// with `indent` blanks. Line breaks are kept, and so are lines that start with a blank.
std::string folded(std::string_view text, int columns, int indent = 0);

/// A command of a shell behind `indent` blanks, folded at `columns` by backslashes, so that it can be pasted.
std::string folded_command(std::string_view command, int columns, int indent);

}  // namespace lockstep
