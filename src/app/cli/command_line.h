#pragma once

// The arguments of one command: flags, options, positionals, and the rest as key=value overrides of the configuration. The help
// text comes from the same declarations. (Parsing is CLI11's.)
//
//   CommandLine line("generate", "Write text with a trained model.");
//   line.option("--model", model, "FOLDER", "run or checkpoint folder");
//   if (!line.parse(arguments)) return 0;  // --help was printed

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "base/text/columns.h"

namespace lockstep::app {

class CommandLine {
 public:
  static constexpr std::int64_t most_int = 2147483647;

  /// `about` is the first paragraph of the help.
  CommandLine(std::string command, std::string about);
  ~CommandLine();

  // Declarations. `name` is "--long" or "-s,--long". The variable's value is the default, which the help shows. It stays when the
  // option is absent. The variable must live until parse() returns. `value` names the value in the help (FILE, N, SECONDS).
  void flag(const std::string& name, bool& target, std::string meaning);
  /// A flag that may have an integer of at most `most` behind a "="; without one the variable gets `alone`.
  void flag(const std::string& name, std::optional<std::int64_t>& target, const std::string& value, std::int64_t alone,
            std::string meaning, std::int64_t most = most_int);
  void option(const std::string& name, std::string& target, std::string value, std::string meaning);
  /// An option with an integer of at most `most`: what is counted fits an int.
  void option(const std::string& name, std::int64_t& target, std::string value, std::string meaning,
              std::int64_t most = most_int);
  void option(const std::string& name, double& target, std::string value, std::string meaning);
  void option(const std::string& name, std::optional<std::int64_t>& target, std::string value, std::string meaning,
              std::int64_t most = most_int);
  void option(const std::string& name, std::optional<double>& target, std::string value, std::string meaning);
  /// A number above 0, at most 1e30. When `required`, its absence is an error, and the variable's value no default.
  void positive(const std::string& name, double& target, std::string value, std::string meaning, bool required = false);
  /// An option that may be given several times.
  void option(const std::string& name, std::vector<std::string>& target, std::string value, std::string meaning);
  /// An option whose value is one of `allowed`.
  void choice(const std::string& name, std::string& target, std::vector<std::string> allowed, std::string meaning);
  /// The next argument that is no option; when `required`, its absence is an error. It may also be given as one of `names`
  /// ("--model").
  void positional(std::string value, std::string& target, std::string meaning, bool required = true,
                  std::vector<std::string> names = {});
  /// The arguments behind those that are no option, whatever they hold; when `required`, at least one.
  void positionals(std::string value, std::vector<std::string>& target, std::string meaning, bool required = true);
  /// The first argument that is no option, with all that is behind it, options too; there may be none.
  void rest(std::string value, std::vector<std::string>& target, std::string meaning);
  /// Arguments that hold a '=' are collected here, in order: settings (group.key=value, group=option), or words of these names
  /// ("params=").
  void overrides(std::vector<std::string>& target, std::string meaning, std::vector<std::string> names = {});
  /// Words of another program's grammar: --NAME=value of these names, collected among the overrides, and files by their extension
  /// (".py"), collected here. Both keep their order; `form` and `meaning` are their row of the help.
  void foreign(std::vector<std::string> names, std::string extension, std::vector<std::string>& target, std::string form,
               std::string meaning);
  /// What an option means that is not declared.
  struct Undeclared {
    std::string setting = {};  ///< the name of an override, which is written as an option
    bool flag = false;         ///< the override is true where no value follows
    std::string right = {};    ///< no override: what to write instead
  };
  using Meaning = std::function<std::optional<Undeclared>(const std::string& option, const std::optional<std::string>& value)>;
  /// `meaning` is asked for each option that is not declared. `value` is the word that follows, or what stands behind its "=".
  void undeclared(Meaning meaning);
  /// The options that -h shows, by their long names; where none are said, the first ones.
  void daily(std::vector<std::string> options);
  /// A paragraph at the end of the help. Lines behind "examples:" that begin with two blanks are commands to copy.
  void note(std::string text);
  /// A table at the end of the help.
  void table(std::string heading, std::vector<HelpRow> rows);

  /// Reads the arguments into the variables. Returns false when help was asked for and printed to standard output, or where the
  /// command tells what it takes. Throws UserError with every problem found: an unknown option (naming the nearest), a missing or
  /// wrong value, a stray word.
  [[nodiscard]] bool parse(const Arguments& arguments);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::app
