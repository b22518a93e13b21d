#include "app/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <list>

#include "app/cli/command_line_parts.h"
#include "app/cli/help_text.h"
#include "app/cli/number_values.h"
#include "base/text/paint.h"

namespace lockstep::app {
namespace {

std::string told(const CLI::ParseError& error) {
  const std::string text = error.what();
  const bool no_value = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;  // "--name: 1 required TEXT missing"
  return no_value ? text.substr(0, text.find(':')) + " has no value" : text;
}

}  // namespace

CommandLine::CommandLine(std::string command, std::string about) : parts_(std::make_unique<Parts>()) {
  parts_->sheet.name = std::move(command);
  parts_->sheet.about = std::move(about);
}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const std::string& name, bool& target, std::string meaning) {
  const auto set = [&target](const std::string&) { return target = true; };
  parts_->options.push_back({{name, "", std::move(meaning), WordType::flag}, set});
}

void CommandLine::flag(const std::string& name, std::optional<std::int64_t>& target, const std::string& value, std::int64_t alone,
                       std::string meaning, std::int64_t most) {
  const auto set = [&target, alone, most](const std::string& text) {
    if (text != "true") return read_number(text, target.emplace(), most);
    target = alone;
    return true;
  };
  parts_->options.push_back({{name, fmt::format("[={}]", value), std::move(meaning), WordType::flag},
                             set,
                             "an integer",
                             [most](const std::string& text) { return integer_bounds(text, most); }});
}

void CommandLine::option(const std::string& name, std::string& target, std::string value, std::string meaning) {
  const auto set = [&target](const std::string& text) {
    target = text;
    return true;
  };
  parts_->options.push_back({{name, std::move(value), std::move(meaning), WordType::text, target}, set});
}

void CommandLine::option(const std::string& name, std::int64_t& target, std::string value, std::string meaning,
                         std::int64_t most) {
  const auto set = [&target, most](const std::string& text) { return read_number(text, target, most); };
  parts_->options.push_back({{name, std::move(value), std::move(meaning), WordType::integer, std::to_string(target)},
                             set,
                             "an integer",
                             [most](const std::string& text) { return integer_bounds(text, most); }});
}

void CommandLine::option(const std::string& name, double& target, std::string value, std::string meaning) {
  const auto set = [&target](const std::string& text) { return read_number(text, target); };
  parts_->options.push_back({{name, std::move(value), std::move(meaning), WordType::number, fmt::format("{}", target)},
                             set,
                             "a number",
                             number_bounds});
}

void CommandLine::positive(const std::string& name, double& target, std::string value, std::string meaning, bool required) {
  const auto set = [&target](const std::string& text) { return read_number(text, target) && target > 0 && target <= 1e30; };
  WordSheet sheet{name, std::move(value), std::move(meaning), WordType::number, required ? "" : fmt::format("{}", target)};
  sheet.required = required;
  parts_->options.push_back({std::move(sheet), set, "a number above 0"});
}

void CommandLine::option(const std::string& name, std::optional<std::int64_t>& target, std::string value, std::string meaning,
                         std::int64_t most) {
  const auto set = [&target, most](const std::string& text) { return read_number(text, target.emplace(), most); };
  const std::string shown = target ? std::to_string(*target) : "";
  parts_->options.push_back({{name, std::move(value), std::move(meaning), WordType::integer, shown},
                             set,
                             "an integer",
                             [most](const std::string& text) { return integer_bounds(text, most); }});
}

void CommandLine::option(const std::string& name, std::optional<double>& target, std::string value, std::string meaning) {
  const auto set = [&target](const std::string& text) { return read_number(text, target.emplace()); };
  const std::string shown = target ? fmt::format("{}", *target) : "";
  parts_->options.push_back(
      {{name, std::move(value), std::move(meaning), WordType::number, shown}, set, "a number", number_bounds});
}

void CommandLine::option(const std::string& name, std::vector<std::string>& target, std::string value, std::string meaning) {
  const auto add = [&target](const std::string& text) {
    target.push_back(text);
    return true;
  };
  WordSheet sheet{name, std::move(value), std::move(meaning)};
  sheet.repeats = true;
  parts_->options.push_back({std::move(sheet), add});
}

void CommandLine::choice(const std::string& name, std::string& target, std::vector<std::string> allowed, std::string meaning) {
  const std::string all = fmt::format("{}", fmt::join(allowed, "|"));
  const auto set = [&target, allowed](const std::string& text) {
    target = text;
    return std::find(allowed.begin(), allowed.end(), text) != allowed.end();
  };
  parts_->options.push_back(
      {{name, all, std::move(meaning), WordType::choice, target, std::move(allowed)}, set, "one of " + all});
}

void CommandLine::positional(std::string value, std::string& target, std::string meaning, bool required,
                             std::vector<std::string> names) {
  WordSheet sheet{std::move(value), "", std::move(meaning)};
  sheet.required = required;
  sheet.names = std::move(names);
  parts_->positionals.push_back({std::move(sheet), &target});
}

void CommandLine::positionals(std::string value, std::vector<std::string>& target, std::string meaning, bool required) {
  WordSheet sheet{std::move(value), "", std::move(meaning)};
  sheet.required = required;
  sheet.repeats = true;
  parts_->positionals.push_back({std::move(sheet), nullptr, &target});
}

void CommandLine::rest(std::string value, std::vector<std::string>& target, std::string meaning) {
  positionals(std::move(value), target, std::move(meaning), false);
  parts_->sheet.passes_on = true;
}

void CommandLine::overrides(std::vector<std::string>& target, std::string meaning, std::vector<std::string> names) {
  parts_->overrides = &target;
  parts_->sheet.takes_settings = names.empty();
  parts_->sheet.words.push_back({names.empty() ? "group.key=value" : "NAME=VALUE", std::move(meaning)});
  parts_->sheet.word_names = std::move(names);
}

void CommandLine::foreign(std::vector<std::string> names, std::string extension, std::vector<std::string>& files,
                          std::string form, std::string meaning) {
  parts_->foreign = {std::move(names), std::move(extension), &files};
  parts_->sheet.words.push_back({std::move(form), std::move(meaning)});
}

void CommandLine::undeclared(Meaning meaning) { parts_->undeclared = std::move(meaning); }

void CommandLine::daily(std::vector<std::string> options) { parts_->sheet.daily = std::move(options); }

void CommandLine::note(std::string text) {
  if (!text.starts_with("example")) {
    parts_->sheet.notes.push_back({std::move(text)});
    return;
  }
  std::string rest;
  for (std::size_t at = text.find('\n') + 1; at < text.size();) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (line.starts_with("  ")) {
      parts_->sheet.examples.push_back(line.substr(2));
    } else {
      rest += (rest.empty() ? "" : "\n") + line;
    }
  }
  if (!rest.empty()) parts_->sheet.notes.push_back({std::move(rest)});
}

void CommandLine::table(std::string heading, std::vector<HelpRow> rows) {
  parts_->sheet.notes.push_back({std::move(heading), std::move(rows)});
}

CommandSheet CommandLine::Parts::whole_sheet() const {
  CommandSheet whole = sheet;
  whole.options.assign(options.begin(), options.end());
  whole.arguments.assign(positionals.begin(), positionals.end());
  return whole;
}

bool CommandLine::parse(const Arguments& arguments) {
  if (arguments.described != nullptr) {
    *arguments.described = parts_->whole_sheet();
    return false;
  }
  for (const std::string& argument : arguments) {
    // CLI11 would take the next argument for the value.
    if (argument.size() > 2 && argument[0] == '-' && argument.back() == '=') {
      throw UserError(fmt::format("{} has no value", argument.substr(0, argument.size() - 1)), parts_->remedy());
    }
  }
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  if (parts_->sheet.passes_on) app.prefix_command();
  bool wants_help = false, wants_brief_help = false;
  app.add_flag("--help", wants_help);
  app.add_flag("-h", wants_brief_help);
  const auto take_all = [&app](const std::string& name, std::vector<std::string>& values) {
    app.add_option(name, values)->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  std::vector<std::string> colours;
  take_all("--color", colours);
  std::vector<std::vector<std::string>> values(parts_->options.size());
  std::vector<char> flags(parts_->options.size());
  for (std::size_t i = 0; i < parts_->options.size(); ++i) {
    const Parts::Option& o = parts_->options[i];
    if (o.type == WordType::flag && !o.value.empty()) {
      app.add_flag(o.name, values[i]);
    } else if (o.type == WordType::flag) {
      app.add_flag_callback(o.name, [&flags, i] { flags[i] = 1; });
    } else {
      take_all(o.name, values[i]);
    }
  }
  std::list<std::vector<std::string>> named;  // CLI11 keeps where each is
  for (const Parts::Positional& p : parts_->positionals) {
    for (const std::string& name : p.names) take_all(name, named.emplace_back());
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them from the back
  } catch (const CLI::ParseError& error) {
    throw UserError(told(error), parts_->remedy());
  }
  for (const std::string& when : colours) choose_colours(when);
  if (wants_help || wants_brief_help) {
    std::fputs(help_text(parts_->whole_sheet(), help_form(stdout, !wants_help)).c_str(), stdout);
    return false;
  }
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < parts_->options.size(); ++i) {
    if (flags[i] != 0) parts_->options[i].read("");
    parts_->read_values(parts_->options[i], values[i], problems);
  }
  parts_->take_named(named, problems);
  parts_->place_words(app.remaining(), problems);
  if (!problems.empty()) throw UserError(std::move(problems));
  return true;
}

}  // namespace lockstep::app
