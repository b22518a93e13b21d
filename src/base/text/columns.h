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

/// The rows as two columns behind two blanks, the right one folded at `columns`. A left side longer than 34 characters gets its
/// own line.
std::string two_columns(const std::vector<HelpRow>& rows, int columns = 100);

/// `text` folded at `columns` between words; lines behind the first start with `indent` blanks. Line breaks are kept, and
/// so are lines that start with a blank (commands to copy).
std::string folded(std::string_view text, int columns, int indent = 0);

}  // namespace lockstep
