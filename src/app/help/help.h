#pragma once

// Commands that tell of all commands, and the forms in which they do.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/command_sheet.h"
#include "base/json.h"

namespace lockstep::app {

/// `commands` with `help`, `completion` and `schema` behind them.
std::vector<Command> with_help(std::vector<Command> commands);
Command completion_command(std::vector<Command> commands);
Command schema_command();

/// The program with its commands. `whole`: with what each takes.
CommandSheet program_sheet(const std::vector<Command>& commands, bool whole);

/// All commands and settings, for programs: `lockstep help --json`.
Json help_json(const CommandSheet& program);

/// Names of files ("lockstep-train.1") and their texts: a page of the program, of each command, and of the settings.
std::vector<std::pair<std::string, std::string>> man_pages(const CommandSheet& program);

/// Numbers that the program may end with.
struct ExitStatus {
  int code;
  std::string_view meaning;
};
const std::vector<ExitStatus>& exit_statuses();

/// A JSON Schema (draft-07) of recipes.
Json recipe_schema();

}  // namespace lockstep::app
