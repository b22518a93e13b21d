// `lockstep help`: what the program, its commands and its settings are.

#include "app/help/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "app/cli/build_info.h"
#include "app/cli/command_line.h"
#include "app/cli/help_text.h"
#include "app/settings/config_help.h"
#include "base/error.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

std::string man_page(const std::vector<Command>& commands, const std::vector<std::string>& topic) {
  const std::string name = fmt::format("lockstep{}{}.", topic.empty() ? "" : "-", fmt::join(topic, "-"));
  for (auto& [page, text] : man_pages(program_sheet(commands, true))) {
    if (page.starts_with(name)) return std::move(text);
  }
  throw UserError(fmt::format("there is no manual page of {}", fmt::join(topic, " ")), "lockstep --help lists the commands");
}

int help(const std::vector<Command>& commands, const Arguments& arguments) {
  Arguments words = arguments;
  const bool brief = std::erase(words, "-h") > 0;
  std::erase(words, "--help");
  std::vector<std::string> topic;
  bool json = false, man = false;
  std::string pages;
  CommandLine line("help", "Help of the program, of a command or of the settings.");
  line.positionals("TOPIC", topic, "a command (plan search); or config, with a group (train) or a setting (train.max_iters)",
                   false);
  line.flag("--json", json, "all commands, options, settings and bundles, for programs");
  line.flag("--man", man, "the manual page");
  line.option("--man-pages", pages, "FOLDER", "write all manual pages into this folder");
  line.note("examples:\n  lockstep help train\n  lockstep help config optimizer\n  lockstep help config train.max_iters");
  if (!line.parse(words)) return 0;
  const HelpForm form = help_form(stdout, brief);
  if (json) {
    std::fputs((help_json(program_sheet(commands, true)).dump(2) + "\n").c_str(), stdout);
  } else if (!pages.empty()) {
    io::make_folders(pages);
    for (const auto& [name, text] : man_pages(program_sheet(commands, true))) io::replace_file(io::Path(pages) / name, text);
  } else if (man) {
    std::fputs(man_page(commands, topic).c_str(), stdout);
  } else if (topic.empty()) {
    std::fputs(help_text(program_sheet(commands, false), form).c_str(), stdout);
  } else if (topic[0] == "config") {
    std::fputs(settings::config_help(topic.size() > 1 ? topic[1] : "", form.columns, form.paint).c_str(), stdout);
  } else {
    Arguments own(topic.begin() + 1, topic.end());
    own.push_back(brief ? "-h" : "--help");
    return find_command(commands, topic[0]).run(own);
  }
  return 0;
}

}  // namespace

CommandSheet program_sheet(const std::vector<Command>& commands, bool whole) {
  CommandSheet sheet{.name = "", .summary = {}, .about = fmt::format("lockstep {}: trains GPT-style language models.", kVersion)};
  sheet.kinds = "commands";
  for (const Command& command : commands)
    sheet.commands.push_back(whole ? sheet_of(command) : CommandSheet{command.name, command.summary, ""});
  sheet.options = {{"-V,--version", "", "the version, and the commit that it was built from", WordType::flag}};
  sheet.examples = {"lockstep train book.txt log.name=book  # a model of a text, in about three minutes",
                    "lockstep generate runs/book            # the model writes text",
                    "lockstep report runs/book              # how it learned"};
  return sheet;
}

std::vector<Command> with_help(std::vector<Command> commands) {
  const std::vector<Command> own = commands;
  commands.push_back({"help", "this text; of a COMMAND, of config: all settings, a group, one",
                      [own](const Arguments& arguments) { return help(with_help(own), arguments); }});
  commands.push_back(completion_command(own));
  commands.push_back(schema_command());
  return commands;
}

}  // namespace lockstep::app
