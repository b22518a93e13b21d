#pragma once

// The help of a command, made of what it says that it takes.

#include <cstdio>
#include <string>

#include "app/cli/command_sheet.h"
#include "base/text/paint.h"

namespace lockstep::app {

struct HelpForm {
  int columns = 80;
  bool brief = false;  ///< one screen of 24 lines: usage, daily options, first examples
  Paint paint = {};
};

/// Help as `file` shows it.
HelpForm help_form(std::FILE* file, bool brief);
std::string help_text(const CommandSheet& sheet, const HelpForm& form);

/// The row of an option: how it is written, its meaning, its default.
HelpRow row_of(const WordSheet& option);
/// The first sentence of a text.
std::string first_sentence(std::string_view text);

}  // namespace lockstep::app
