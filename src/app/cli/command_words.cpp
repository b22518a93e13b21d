// What words mean to a command line: values of options, positionals, settings, and what has no place.

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/command_line_parts.h"
#include "base/number_text.h"
#include "base/text/home.h"

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

/// "./a=b" is a path: no setting's name has a slash.
bool is_setting(const std::string& word) {
  const std::size_t sign = word.find_first_of("=/");
  return sign != word.npos && word[sign] == '=';
}

/// `name`: of what may be left out, unless it is `required`.
Problem empty_word(const std::string& name, bool required) {
  return {fmt::format("{} is an empty word", name),
          fmt::format("{}look whether a variable of the shell is set", required ? "" : "leave it out, or ")};
}

/// Only a text may be empty.
bool may_be_empty(std::string_view value) { return value == "TEXT"; }

}  // namespace

std::string CommandLine::Parts::Foreign::name_of(std::string_view option) const {
  std::string name(option.substr(0, 2) == "--" ? option.substr(2) : "");
  std::ranges::replace(name, '-', '_');
  return std::ranges::find(names, name) == names.end() ? "" : "--" + name;
}

bool CommandLine::Parts::Foreign::is_file(const std::string& word) const {
  return files != nullptr && word[0] != '-' && word.ends_with(extension) && !is_setting(word);
}

std::string CommandLine::Parts::remedy() const { return fmt::format("see lockstep {} --help", sheet.name); }

void CommandLine::Parts::place_words(const std::vector<std::string>& words, std::vector<Problem>& problems) const {
  bool unknown_option = false;
  std::vector<std::string> strays;
  std::size_t placed = 0;
  if (sheet.passes_on && !words.empty() && words[0][0] != '-') {
    place(positionals.size() - 1, words[0], problems);
    positionals.back().all->insert(positionals.back().all->end(), words.begin() + 1, words.end());
    return;
  }
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    while (placed < positionals.size() && !positionals[placed].given.empty()) ++placed;
    if (foreign.is_file(word)) {
      foreign.files->push_back(word);
    } else if (word.size() > 1 && word[0] == '-') {
      const std::optional<std::size_t> taken = take_undeclared(std::span(words).subspan(at), problems);
      unknown_option = unknown_option || !taken;
      at += taken.value_or(1) - 1;
    } else if (overrides != nullptr && is_setting(word)) {
      overrides->push_back(word);
    } else if (placed < positionals.size()) {
      placed = place(placed, word, problems);
    } else {
      strays.push_back(word);
    }
  }
  if (unknown_option) return;  // a stray word would be its value
  for (const std::string& word : strays) problems.push_back(stray(word));
  demand_positionals(placed, problems);
}

std::size_t CommandLine::Parts::place(std::size_t at, const std::string& word, std::vector<Problem>& problems) const {
  const Positional& p = positionals[at];
  if (word.empty()) problems.push_back(empty_word(p.name, p.required));
  if (p.all == nullptr) {
    *p.target = word;
    return at + 1;
  }
  p.all->push_back(word);
  return at;
}

std::optional<std::size_t> CommandLine::Parts::take_undeclared(std::span<const std::string> words,
                                                               std::vector<Problem>& problems) const {
  LooseOption loose(words);
  const std::string theirs = foreign.name_of(loose.option);
  if (!theirs.empty() && loose.value) {
    overrides->push_back(theirs + "=" + *loose.value);
    return loose.words;
  }
  const std::optional<Undeclared> meant = undeclared != nullptr ? undeclared(loose.option, loose.value) : std::nullopt;
  if (meant && meant->flag) loose.read_flag();
  if (meant && !meant->setting.empty() && loose.value) {
    overrides->push_back(meant->setting + "=" + *loose.value);
    return loose.words;
  }
  if (meant && has_option(meant->right)) {
    problems.push_back({fmt::format("unknown option {}", words[0]), "here it is " + meant->right});
  } else if ((meant && meant->right.empty()) || !theirs.empty()) {
    problems.push_back({fmt::format("{} has no value", words[0]), fmt::format("write it in one word: {}=VALUE", words[0])});
  } else {
    problems.push_back(unknown(words[0]));
  }
  return std::nullopt;
}

bool CommandLine::Parts::has_option(const std::string& right) const {
  const auto is_it = [&](const std::string& name) { return right == name || right.starts_with(name + " "); };
  const auto has_it = [&](const Positional& p) { return std::ranges::any_of(p.names, is_it); };
  if (!right.starts_with('-')) return !right.empty();
  return std::ranges::any_of(options, [&](const Option& o) { return is_it(o.long_name()); }) ||
         std::ranges::any_of(positionals, has_it);
}

Problem CommandLine::Parts::unknown(const std::string& word) const {
  std::vector<std::string> names = {"--help", "--color"};
  for (const Option& o : options) names.push_back(o.long_name());
  for (const Positional& p : positionals) names.insert(names.end(), p.names.begin(), p.names.end());
  for (const std::string& name : foreign.names) names.push_back("--" + name);
  const std::string near = nearest_name(word.substr(0, word.find('=')), names);
  return {fmt::format("unknown option {}", word), near.empty() ? remedy() : fmt::format("did you mean {}?", near)};
}

Problem CommandLine::Parts::stray(const std::string& word) const {
  if (word.empty()) return empty_word("the last word", false);
  const auto named = std::ranges::find_if(positionals, [](const Positional& p) { return !p.given.empty(); });
  if (named != positionals.end())
    return {fmt::format("{} is given twice: {} and {} {}", named->name, word, named->given, *named->target), "give it once"};
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
              {fmt::format("{} is given twice: {} {} and {} {}", p.name, p.given, *p.target, name, value), "give it once"});
        }
        const bool place = places_of(p.name) != Places::none;
        if (value.empty()) problems.push_back(empty_word(name, p.required));
        *p.target = place ? at_home(value) : value;
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
    if (p.required && !given) problems.push_back({fmt::format("{} is missing", p.name), usage_of(whole_sheet())});
  }
}

void CommandLine::Parts::read_values(const Option& o, const std::vector<std::string>& values,
                                     std::vector<Problem>& problems) const {
  if (!o.repeats && values.size() > 1) {
    problems.push_back(
        {fmt::format("{} is given {} times: {}", o.long_name(), values.size(), fmt::join(values, ", ")), "give it once"});
    return;
  }
  const bool place = places_of(o.value) != Places::none;
  for (const std::string& text : values) {
    if (text.empty() && !may_be_empty(o.value)) {
      problems.push_back(empty_word(o.long_name(), o.required));
    } else if (!o.read(place ? at_home(text) : text)) {
      problems.push_back(
          {fmt::format("{}: '{}' is not {}{}", o.long_name(), text, o.rule, o.bounds ? o.bounds(text) : ""), remedy()});
    }
  }
  if (o.required && values.empty()) problems.push_back({fmt::format("{} {} is missing", o.name, o.value), remedy()});
}

}  // namespace lockstep::app
