#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/cli/help_text.h"
#include "app/help/completion.h"
#include "app/settings/keys.h"
#include "app/settings/presets.h"

namespace lockstep::app {
namespace {

/// Collects candidates for one word.
class Collector {
 public:
  Collector(const CommandSheet& program, std::string current) : program_(program), current_(std::move(current)) {}

  Candidates take(const std::vector<std::string>& words) {
    walk(words);
    return std::move(found_);
  }

 private:
  void walk(const std::vector<std::string>& words) {
    const CommandSheet* sheet = &program_;
    const WordSheet* waiting = nullptr;  // the option in front, whose value comes
    std::size_t arguments = 0;
    for (std::size_t at = 0; at < words.size(); ++at) {
      const std::string& word = words[at];
      if (std::exchange(waiting, nullptr) != nullptr) continue;
      if (word.starts_with('-')) {
        waiting = word.find('=') == word.npos ? valued_option(*sheet, word) : nullptr;
      } else if (!sheet->commands.empty()) {
        const auto one = std::ranges::find(sheet->commands, word, last_word);
        if (one == sheet->commands.end()) return;
        sheet = &*one;
        if (sheet->name == "help") return topics({words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end()});
      } else if (sheet->passes_on) {
        return walk({words.begin() + static_cast<std::ptrdiff_t>(at), words.end()});
      } else if (word.find('=') == word.npos) {
        ++arguments;
      }
    }
    if (waiting != nullptr) return values(*waiting, "");
    at(*sheet, arguments);
  }

  static std::string last_word(const CommandSheet& sheet) { return sheet.name.substr(sheet.name.rfind(' ') + 1); }

  static const WordSheet* valued_option(const CommandSheet& sheet, const std::string& word) {
    for (const auto* options : {&sheet.options, &common_options()}) {
      for (const WordSheet& option : *options) {
        const bool named = option.long_name() == word || option.name.substr(0, option.name.find(',')) == word;
        if (named && option.type != WordType::flag) return &option;
      }
    }
    for (const WordSheet& argument : sheet.arguments) {
      if (std::ranges::count(argument.names, word) > 0) return &argument;
    }
    return nullptr;
  }

  void at(const CommandSheet& sheet, std::size_t arguments) {
    const std::size_t equals = current_.find('=');
    if (current_.starts_with('-')) {
      const WordSheet* option = equals == current_.npos ? nullptr : valued_option(sheet, current_.substr(0, equals));
      if (option != nullptr) return values(*option, current_.substr(0, equals + 1));
      return options(sheet);
    }
    if (equals != current_.npos) return setting_values(sheet, current_.substr(0, equals));
    for (const CommandSheet& one : sheet.commands) offer(last_word(one), one.summary);
    if (sheet.passes_on) {
      for (const CommandSheet& one : program_.commands) offer(one.name, one.summary);
    } else if (!sheet.arguments.empty() && (arguments < sheet.arguments.size() || sheet.arguments.back().repeats)) {
      values(sheet.arguments[std::min(arguments, sheet.arguments.size() - 1)], "");
    }
    for (const std::string& name : sheet.word_names) offer(name, "");
    if (sheet.takes_settings) setting_names();
  }

  void options(const CommandSheet& sheet) {
    for (const auto* all : {&sheet.options, &common_options()}) {
      for (const WordSheet& option : *all) offer(option.long_name(), first_sentence(option.meaning));
    }
    for (const WordSheet& argument : sheet.arguments) {
      for (const std::string& name : argument.names) offer(name, first_sentence(argument.meaning));
    }
  }

  /// Offers the values of an option or an argument, behind `prefix`.
  void values(const WordSheet& word, const std::string& prefix) {
    const std::string& value = word.value.empty() ? word.name : word.value;
    for (std::size_t at = 0; at < value.size();) {  // best|last|STEP
      const std::string one = value.substr(at, value.find('|', at) - at);
      if (one.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ.") == one.npos) offer(prefix + one, "");
      if (places_of(one) != Places::none) found_.places = places_of(one);
      at += one.size() + 1;
    }
  }

  /// Groups first, as there are many keys.
  void setting_names() {
    const bool in_group = current_.find('.') != current_.npos;
    for (const settings::Group& group : settings::groups()) {
      if (in_group) break;
      offer(std::string(group.name) + ".", std::string(group.meaning));
      if (!settings::options_of(group.name).empty()) offer(std::string(group.name) + "=", "a bundle of settings");
    }
    for (const settings::Key& key : settings::keys()) {
      if (in_group) offer(std::string(key.name) + "=", std::string(key.meaning));
      const bool own = !current_.empty() && settings::find_key(key.option()) == &key;
      if (own && !in_group) offer(std::string(key.option()) + "=", std::string(key.meaning));
    }
  }

  void setting_values(const CommandSheet& sheet, const std::string& name) {
    if (!sheet.takes_settings && std::ranges::count(sheet.word_names, name + "=") == 0) return;
    for (const settings::Preset& preset : settings::presets()) {
      if (preset.group == name) offer(fmt::format("{}={}", name, preset.option), "");
    }
    const settings::Key* key = settings::find_key(name);
    if (key == nullptr) return;
    std::vector<std::string_view> words = key->rule.words;
    if (key->type == settings::Type::boolean) words = {"true", "false"};
    if (key->nullable) words.emplace_back("null");
    for (const std::string_view word : words) offer(fmt::format("{}={}", name, word), "");
    if (key->type == settings::Type::text && key->rule.words.empty()) found_.places = Places::files;
  }

  void topics(const std::vector<std::string>& words) {
    const CommandSheet* sheet = &program_;
    for (const std::string& word : words) {
      const auto one = std::ranges::find(sheet->commands, word, last_word);
      if (word == "config") return setting_topics();
      if (one != sheet->commands.end()) sheet = &*one;
    }
    for (const CommandSheet& one : sheet->commands) offer(last_word(one), one.summary);
    if (words.empty()) offer("config", "all settings");
  }

  void setting_topics() {
    for (const settings::Group& group : settings::groups()) offer(std::string(group.name), std::string(group.meaning));
    for (const settings::Key& key : settings::keys()) {
      if (current_.find('.') != current_.npos) offer(std::string(key.name), std::string(key.meaning));
    }
  }

  void offer(std::string word, std::string meaning) {
    if (word.starts_with(current_)) found_.words.push_back({std::move(word), std::move(meaning)});
  }

  const CommandSheet& program_;
  std::string current_;
  Candidates found_;
};

}  // namespace

Candidates candidates_for(const CommandSheet& program, std::vector<std::string> words) {
  if (words.empty()) words.emplace_back();
  std::string current = std::move(words.back());
  words.pop_back();
  return Collector(program, std::move(current)).take(words);
}

}  // namespace lockstep::app
