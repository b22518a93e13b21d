#pragma once

// What a CommandLine holds: declarations, with what reads the values. For its two sources alone.

#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/command_sheet.h"
#include "base/error.h"

namespace lockstep::app {

struct CommandLine::Parts {
  struct Option : WordSheet {
    std::function<bool(const std::string&)> read;                // false: not a value of this type
    std::string rule = {};                                       // what a value must be
    std::function<std::string(const std::string&)> bounds = {};  // what to add to the rule for a text
  };
  struct Positional : WordSheet {
    std::string* target = nullptr;
    std::vector<std::string>* all = nullptr;  // in the last positional: takes every word that comes
    std::string given = {};                   // the one of its names that it was given by; empty: as a word, or not given yet
  };

  CommandSheet sheet;  // all but options and arguments
  std::vector<Option> options;
  std::vector<Positional> positionals;
  std::vector<std::string>* overrides = nullptr;
  struct Foreign {
    std::vector<std::string> names;
    std::string extension;
    std::vector<std::string>* files = nullptr;  // null: there is no other grammar

    /// The grammar's spelling of an option: "--max_iters" for "--max-iters". Empty where it has no such name.
    std::string name_of(std::string_view option) const;
    bool is_file(const std::string& word) const;
  } foreign;
  Meaning undeclared = nullptr;

  CommandSheet whole_sheet() const;
  std::string remedy() const;

  /// Reads what an option was given, in the order of the words.
  void read_values(const Option& o, const std::vector<std::string>& values, std::vector<Problem>& problems) const;
  /// Takes positionals that were given as options.
  void take_named(const std::list<std::vector<std::string>>& values, std::vector<Problem>& problems);
  void place_words(const std::vector<std::string>& words, std::vector<Problem>& problems) const;
  /// Gives a word to positional `at`. Returns the positional that takes the next word.
  std::size_t place(std::size_t at, const std::string& word, std::vector<Problem>& problems) const;
  /// Reads the option that `words` begin with, which is not declared. Returns how many of the words it takes, or nothing with a
  /// problem.
  std::optional<std::size_t> take_undeclared(std::span<const std::string> words, std::vector<Problem>& problems) const;
  /// Whether the command has `right`, which is to be written instead: an option of its own, or words of another kind.
  bool has_option(const std::string& right) const;
  Problem unknown(const std::string& word) const;
  /// The problem of a word that has no place among the positionals.
  Problem stray(const std::string& word) const;
  /// Adds a problem for each required positional from `placed` on that has no word.
  void demand_positionals(std::size_t placed, std::vector<Problem>& problems) const;
};

}  // namespace lockstep::app
