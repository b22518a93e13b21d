#include "app/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <list>
#include <span>

#include "app/cli/number_values.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/text/columns.h"

namespace lockstep::app {
namespace {

/// An option that is not declared, with what may be its value: what stands behind its "=", else the next word.
struct LooseOption {
  explicit LooseOption(std::span<const std::string> all) : option(all[0].substr(0, all[0].find('='))) {
    if (option != all[0]) {
      value = all[0].substr(option.size() + 1);
    } else if (all.size() > 1 && (!all[1].starts_with('-') || number_from<double>(all[1]))) {
      value = all[1];
      words = 2;
    }
  }
  /// A flag takes the next word for its value only where that says true or false.
  void read_flag() {
    if (value && (words == 1 || *value == "true" || *value == "false")) return;
    value = "true";
    words = 1;
  }

  std::string option;
  std::optional<std::string> value;
  std::size_t words = 1;  // that it takes with its value
};

std::string long_name(const std::string& name) { return name.substr(name.rfind(',') + 1); }

}  // namespace

struct CommandLine::Parts {
  struct Option {
    std::string name, value, meaning, default_text;
    bool is_flag = false, repeats = false;
    std::function<bool(const std::string&)> read;  // false: not a value of this type
    std::string rule;                              // what a value must be
    bool required = false;
    std::function<std::string(const std::string&)> bounds = {};  // what to add to the rule for a text
  };
  struct Positional {
    std::string value, meaning;
    std::string* target;
    bool required;
    std::vector<std::string>* all = nullptr;  // takes every word that comes; the last one
    std::vector<std::string> names = {};      // options that give it too
    std::string given = {};                   // as which of them it was given; empty: as a word, or not yet
  };

  std::string command, about, overrides_meaning;
  std::vector<Option> options;
  std::vector<Positional> positionals;
  bool has_rest = false;  // the last of them takes options too
  std::vector<std::string>* overrides = nullptr;
  struct Foreign {
    std::vector<std::string> names;
    std::string extension, form, meaning;
    std::vector<std::string>* target = nullptr;  // null: there is no other grammar

    /// "--max_iters" of "--max-iters", where the grammar has the name; "" where not.
    std::string name_of(std::string_view option) const {
      std::string name(option.substr(0, 2) == "--" ? option.substr(2) : "");
      std::ranges::replace(name, '-', '_');
      return std::ranges::find(names, name) == names.end() ? "" : "--" + name;
    }
    bool is_file(const std::string& word) const {
      return target != nullptr && word[0] != '-' && word.ends_with(extension) && word.find('=') == word.npos;
    }
  } foreign;
  Meaning undeclared = nullptr;
  std::vector<std::string> notes;

  std::string usage() const {
    std::string text = fmt::format("usage: lockstep {}", command);
    for (const Positional& p : positionals)
      text += (p.required ? " " + p.value : fmt::format(" [{}]", p.value)) + (p.all != nullptr ? "..." : "");
    text += " [options]";
    if (overrides != nullptr) text += " [group=option ...] [group.key=value ...]";
    return text;
  }
  std::string remedy() const { return fmt::format("see lockstep {} --help", command); }

  /// What an option was given, in the order of the words.
  void read_values(const Option& o, const std::vector<std::string>& values, std::vector<Problem>& problems) const;
  /// Positionals that were given as options.
  void take_named(const std::list<std::vector<std::string>>& values, std::vector<Problem>& problems);
  void place_words(const std::vector<std::string>& words, std::vector<Problem>& problems) const;
  /// What an option means that is not declared; how many of the `words` from it on that takes, or nothing with a problem.
  std::optional<std::size_t> take_undeclared(std::span<const std::string> words, std::vector<Problem>& problems) const;
  Problem unknown(const std::string& word) const;
  /// What has no place among the positionals.
  Problem stray(const std::string& word) const;
  /// Of those from `placed` on.
  void demand_positionals(std::size_t placed, std::vector<Problem>& problems) const;
};

CommandLine::CommandLine(std::string command, std::string about) : parts_(std::make_unique<Parts>()) {
  parts_->command = std::move(command);
  parts_->about = std::move(about);
}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const std::string& name, bool& target, std::string meaning) {
  const auto set = [&target](const std::string&) { return target = true; };
  parts_->options.push_back({name, "", std::move(meaning), "", true, false, set, ""});
}

void CommandLine::option(const std::string& name, std::string& target, std::string value, std::string meaning) {
  const auto set = [&target](const std::string& text) {
    target = text;
    return true;
  };
  parts_->options.push_back({name, std::move(value), std::move(meaning), target, false, false, set, "a text"});
}

void CommandLine::option(const std::string& name, std::int64_t& target, std::string value, std::string meaning,
                         std::int64_t most) {
  const auto set = [&target, most](const std::string& text) { return read_number(text, target, most); };
  parts_->options.push_back({name, std::move(value), std::move(meaning), std::to_string(target), false, false, set, "an integer",
                             false, [most](const std::string& text) { return integer_bounds(text, most); }});
}

void CommandLine::option(const std::string& name, double& target, std::string value, std::string meaning) {
  const auto set = [&target](const std::string& text) { return read_number(text, target); };
  parts_->options.push_back({name, std::move(value), std::move(meaning), fmt::format("{}", target), false, false, set, "a number",
                             false, number_bounds});
}

void CommandLine::positive(const std::string& name, double& target, std::string value, std::string meaning, bool required) {
  const auto set = [&target](const std::string& text) { return read_number(text, target) && target > 0 && target <= 1e30; };
  parts_->options.push_back({name, std::move(value), std::move(meaning), required ? "" : fmt::format("{}", target), false, false,
                             set, "a number above 0", required});
}

void CommandLine::option(const std::string& name, std::optional<std::int64_t>& target, std::string value, std::string meaning,
                         std::int64_t most) {
  const auto set = [&target, most](const std::string& text) { return read_number(text, target.emplace(), most); };
  const std::string shown = target ? std::to_string(*target) : "";
  parts_->options.push_back({name, std::move(value), std::move(meaning), shown, false, false, set, "an integer", false,
                             [most](const std::string& text) { return integer_bounds(text, most); }});
}

void CommandLine::option(const std::string& name, std::optional<double>& target, std::string value, std::string meaning) {
  const auto set = [&target](const std::string& text) { return read_number(text, target.emplace()); };
  const std::string shown = target ? fmt::format("{}", *target) : "";
  parts_->options.push_back(
      {name, std::move(value), std::move(meaning), shown, false, false, set, "a number", false, number_bounds});
}

void CommandLine::option(const std::string& name, std::vector<std::string>& target, std::string value, std::string meaning) {
  const auto add = [&target](const std::string& text) {
    target.push_back(text);
    return true;
  };
  parts_->options.push_back({name, std::move(value), std::move(meaning), "", false, true, add, "a text"});
}

void CommandLine::choice(const std::string& name, std::string& target, std::vector<std::string> allowed, std::string meaning) {
  const std::string all = fmt::format("{}", fmt::join(allowed, "|"));
  const auto set = [&target, allowed](const std::string& text) {
    target = text;
    return std::find(allowed.begin(), allowed.end(), text) != allowed.end();
  };
  parts_->options.push_back({name, all, std::move(meaning), target, false, false, set, "one of " + all});
}

void CommandLine::positional(std::string value, std::string& target, std::string meaning, bool required,
                             std::vector<std::string> names) {
  parts_->positionals.push_back({std::move(value), std::move(meaning), &target, required, nullptr, std::move(names)});
}

void CommandLine::positionals(std::string value, std::vector<std::string>& target, std::string meaning) {
  parts_->positionals.push_back({std::move(value), std::move(meaning), nullptr, true, &target});
}

void CommandLine::rest(std::string value, std::vector<std::string>& target, std::string meaning) {
  parts_->positionals.push_back({std::move(value), std::move(meaning), nullptr, false, &target});
  parts_->has_rest = true;
}

void CommandLine::overrides(std::vector<std::string>& target, std::string meaning) {
  parts_->overrides = &target;
  parts_->overrides_meaning = std::move(meaning);
}

void CommandLine::foreign(std::vector<std::string> names, std::string extension, std::vector<std::string>& target,
                          std::string form, std::string meaning) {
  parts_->foreign = {std::move(names), std::move(extension), std::move(form), std::move(meaning), &target};
}

void CommandLine::undeclared(Meaning meaning) { parts_->undeclared = std::move(meaning); }

void CommandLine::note(std::string text) { parts_->notes.push_back(std::move(text)); }

void CommandLine::Parts::place_words(const std::vector<std::string>& words, std::vector<Problem>& problems) const {
  bool unknown_option = false;
  std::vector<std::string> strays;
  std::size_t placed = 0;
  if (has_rest && !words.empty() && words[0][0] != '-') return positionals.back().all->assign(words.begin(), words.end());
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    while (placed < positionals.size() && !positionals[placed].given.empty()) ++placed;
    if (foreign.is_file(word)) {
      foreign.target->push_back(word);
    } else if (word.size() > 1 && word[0] == '-') {
      const std::optional<std::size_t> taken = take_undeclared(std::span(words).subspan(at), problems);
      unknown_option = unknown_option || !taken;
      at += taken.value_or(1) - 1;
    } else if (overrides != nullptr && word.find('=') != std::string::npos) {
      overrides->push_back(word);
    } else if (placed < positionals.size() && positionals[placed].all != nullptr) {
      positionals[placed].all->push_back(word);
    } else if (placed < positionals.size()) {
      *positionals[placed++].target = word;
    } else {
      strays.push_back(word);
    }
  }
  if (unknown_option) return;  // a stray word would be its value
  for (const std::string& word : strays) problems.push_back(stray(word));
  demand_positionals(placed, problems);
}

std::optional<std::size_t> CommandLine::Parts::take_undeclared(std::span<const std::string> words,
                                                               std::vector<Problem>& problems) const {
  LooseOption loose(words);
  const std::string theirs = foreign.name_of(loose.option);
  if (!theirs.empty() && loose.value) {
    foreign.target->push_back(theirs + "=" + *loose.value);
    return loose.words;
  }
  const std::optional<Undeclared> meant = undeclared != nullptr ? undeclared(loose.option, loose.value) : std::nullopt;
  if (meant && meant->flag) loose.read_flag();
  if (meant && !meant->setting.empty() && loose.value) {
    overrides->push_back(meant->setting + "=" + *loose.value);
    return loose.words;
  }
  if (meant && !meant->right.empty()) {
    problems.push_back({fmt::format("unknown option {}", words[0]), "here it is " + meant->right});
  } else if (meant || !theirs.empty()) {
    problems.push_back({fmt::format("{} has no value", words[0]), fmt::format("write it in one word: {}=VALUE", words[0])});
  } else {
    problems.push_back(unknown(words[0]));
  }
  return std::nullopt;
}

Problem CommandLine::Parts::unknown(const std::string& word) const {
  std::vector<std::string> names = {"--help"};
  for (const Option& o : options) names.push_back(long_name(o.name));
  for (const Positional& p : positionals) names.insert(names.end(), p.names.begin(), p.names.end());
  for (const std::string& name : foreign.names) names.push_back("--" + name);
  const std::string near = nearest_name(word.substr(0, word.find('=')), names);
  return {fmt::format("unknown option {}", word), near.empty() ? remedy() : fmt::format("did you mean {}?", near)};
}

Problem CommandLine::Parts::stray(const std::string& word) const {
  const auto named = std::ranges::find_if(positionals, [](const Positional& p) { return !p.given.empty(); });
  if (named != positionals.end())
    return {fmt::format("{} is given twice: {} and {} {}", named->value, word, named->given, *named->target), "give it once"};
  const std::string hint = overrides != nullptr ? "settings are written group.key=value; " : "";
  return {fmt::format("'{}' has no place in this command", word), hint + remedy()};
}

void CommandLine::Parts::take_named(const std::list<std::vector<std::string>>& values, std::vector<Problem>& problems) {
  auto next = values.begin();
  for (Positional& p : positionals) {
    for (const std::string& name : p.names) {
      for (const std::string& value : *next) {
        if (!p.given.empty()) {
          problems.push_back(
              {fmt::format("{} is given twice: {} {} and {} {}", p.value, p.given, *p.target, name, value), "give it once"});
        }
        *p.target = value;
        p.given = name;
      }
      ++next;
    }
  }
}

void CommandLine::Parts::demand_positionals(std::size_t placed, std::vector<Problem>& problems) const {
  for (; placed < positionals.size(); ++placed) {
    const Positional& p = positionals[placed];
    const bool given = !p.given.empty() || (p.all != nullptr && !p.all->empty());
    if (p.required && !given) problems.push_back({fmt::format("{} is missing", p.value), usage()});
  }
}

void CommandLine::Parts::read_values(const Option& o, const std::vector<std::string>& values,
                                     std::vector<Problem>& problems) const {
  if (!o.repeats && values.size() > 1) {
    problems.push_back(
        {fmt::format("{} is given {} times: {}", long_name(o.name), values.size(), fmt::join(values, ", ")), "give it once"});
    return;
  }
  for (const std::string& text : values) {
    if (!o.read(text)) {
      problems.push_back(
          {fmt::format("{}: '{}' is not {}{}", long_name(o.name), text, o.rule, o.bounds ? o.bounds(text) : ""), remedy()});
    }
  }
  if (o.required && values.empty()) problems.push_back({fmt::format("{} {} is missing", o.name, o.value), remedy()});
}

bool CommandLine::parse(const Arguments& arguments) {
  for (const std::string& argument : arguments) {
    // CLI11 would take the next argument for the value.
    if (argument.size() > 2 && argument[0] == '-' && argument.back() == '=') {
      throw UserError(fmt::format("{} has no value", argument.substr(0, argument.size() - 1)), parts_->remedy());
    }
  }
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  if (parts_->has_rest) app.prefix_command();
  bool wants_help = false;
  app.add_flag("-h,--help", wants_help);
  const auto take_all = [&app](const std::string& name, std::vector<std::string>& values) {
    app.add_option(name, values)->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  std::vector<std::vector<std::string>> values(parts_->options.size());
  std::vector<char> flags(parts_->options.size());
  for (std::size_t i = 0; i < parts_->options.size(); ++i) {
    const Parts::Option& o = parts_->options[i];
    if (o.is_flag) {
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
    throw UserError(error.what(), parts_->remedy());
  }
  if (wants_help) {
    std::fputs(help().c_str(), stdout);
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

std::string CommandLine::help() const {
  std::string text = parts_->usage() + "\n\n" + folded(parts_->about, 100) + '\n';
  std::vector<HelpRow> words;
  for (const Parts::Positional& p : parts_->positionals) {
    std::string left = p.value;
    for (const std::string& name : p.names) left += fmt::format(", {} {}", name, p.value);
    words.push_back({std::move(left), p.meaning});
  }
  if (parts_->overrides != nullptr) words.push_back({"group.key=value", parts_->overrides_meaning});
  if (parts_->foreign.target != nullptr) words.push_back({parts_->foreign.form, parts_->foreign.meaning});
  if (!words.empty()) text += '\n' + two_columns(words);
  std::vector<HelpRow> rows;
  for (const Parts::Option& o : parts_->options) {
    std::string meaning = o.meaning;
    if (!o.default_text.empty()) meaning += fmt::format(" (default {})", o.default_text);
    if (o.repeats) meaning += " (may be repeated)";
    rows.push_back({o.name + (o.value.empty() ? "" : " " + o.value), std::move(meaning)});
  }
  rows.push_back({"-h,--help", "this text"});
  text += "\noptions:\n" + two_columns(rows);
  for (const std::string& note : parts_->notes) text += '\n' + folded(note, 100) + '\n';
  return text;
}

}  // namespace lockstep::app
