#pragma once

// What a command says that it takes. Help, man pages, completion and `lockstep help --json` are made from it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/command.h"
#include "base/text/columns.h"

namespace lockstep::app {

enum class WordType : std::uint8_t { flag, text, integer, number, choice };

enum class Places : std::uint8_t { none, files, folders };
/// What a value is, by what stands for it in the help.
Places places_of(std::string_view value);

/// An option, or an argument that is known by its place.
struct WordSheet {
  std::string name;   ///< "--long", "-s,--long"; of an argument what stands for it in the help (FILE)
  std::string value;  ///< what stands for an option's value, "[=N]" for a flag's; empty: it takes none
  std::string meaning;
  WordType type = WordType::text;
  std::string standard = {};              ///< the default; empty: none
  std::vector<std::string> allowed = {};  ///< the values of a choice
  bool required = false, repeats = false;
  std::vector<std::string> names = {};  ///< of an argument: options that give it too

  std::string long_name() const { return name.substr(name.rfind(',') + 1); }
};

/// A paragraph at the end of the help.
struct HelpNote {
  std::string text;                ///< of a table its heading
  std::vector<HelpRow> rows = {};  ///< of a table
};

struct CommandSheet {
  std::string name, summary, about;  ///< the name is what is typed behind "lockstep"
  std::string kinds = {};            ///< what its commands are ("benches"); empty: it has none
  std::vector<CommandSheet> commands = {};
  std::vector<WordSheet> arguments = {}, options = {};
  bool passes_on = false;                    ///< the last argument is a command with options of its own
  std::vector<HelpRow> words = {};           ///< NAME=VALUE words and others of a form
  bool takes_settings = false;               ///< `words` are settings
  std::vector<std::string> word_names = {};  ///< names of `words` that are no settings: "params="
  std::vector<std::string> daily = {};       ///< options of the short help; empty: the first ones
  std::vector<std::string> examples = {};
  std::vector<HelpNote> notes = {};
};

/// What `command` takes. It is not run.
CommandSheet sheet_of(const Command& command);

/// Options that every command has.
const std::vector<WordSheet>& common_options();
/// "usage: lockstep NAME ..."
std::string usage_of(const CommandSheet& sheet);

}  // namespace lockstep::app
