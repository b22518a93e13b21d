#include "app/cli/command_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::app {

Places places_of(std::string_view value) {
  constexpr std::array folders = std::to_array<std::string_view>({"FOLDER", "DIR", "RUN"});
  constexpr std::array files =
      std::to_array<std::string_view>({"FILE", "DATA", "FROM", "INPUT", "MACHINE", "MODEL", "PATH", "RECIPE", "TO"});
  if (std::ranges::count(folders, value) > 0) return Places::folders;
  return std::ranges::count(files, value) > 0 || value.find('.') != value.npos ? Places::files : Places::none;
}

CommandSheet sheet_of(const Command& command) {
  CommandSheet sheet;
  Arguments none;
  none.described = &sheet;
  command.run(none);
  sheet.summary = command.summary;
  return sheet;
}

const std::vector<WordSheet>& common_options() {
  static const std::vector<WordSheet> all = {
      {"--color", "auto|always|never", "colours; auto: on a terminal", WordType::choice, "auto", {"auto", "always", "never"}},
      {"-h,--help", "", "-h: one screen of help; --help: all of it", WordType::flag}};
  return all;
}

std::string usage_of(const CommandSheet& sheet) {
  std::string text = "usage: lockstep" + (sheet.name.empty() ? "" : " " + sheet.name);
  if (!sheet.commands.empty()) return text + (sheet.name.empty() ? " COMMAND [options]" : " NAME [options]");
  for (const WordSheet& word : sheet.arguments)
    text += (word.required ? " " + word.name : fmt::format(" [{}]", word.name)) + (word.repeats ? "..." : "");
  text += " [options]";
  if (sheet.takes_settings) text += " [group=option...] [group.key=value...]";
  return sheet.word_names.empty() ? text : text + " [NAME=VALUE...]";
}

}  // namespace lockstep::app
