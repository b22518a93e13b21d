#pragma once

// A command of the program (`lockstep NAME ...`) and the program around the commands: help, version, the one catch.
// One file per command defines its `Command NAME_command()`; main.cpp lists them.

#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::app {

inline constexpr int kUserError = 2, kSystemError = 1, kBrokenRule = 70, kDiverged = 3;
inline constexpr int kInterrupted = 130, kTerminated = 143;  // exit codes after SIGINT, SIGTERM: 128 + the number, as a shell's

struct CommandSheet;

/// The words behind a command's name.
struct Arguments : std::vector<std::string> {
  using vector::vector;
  Arguments(std::vector<std::string> words) : vector(std::move(words)) {}
  CommandSheet* described = nullptr;  ///< where the command tells what it takes, in place of its work
};

struct Command {
  std::string name;     // as it is typed
  std::string summary;  // one line for `lockstep --help`, at most 65 characters
  /// Does the work. `arguments` are those behind the name, for a CommandLine. Returns the exit code.
  std::function<int(const Arguments& arguments)> run;
  /// The output only accompanies the command's work, which goes on when the output's reader is gone.
  bool works_unread = false;
};

/// Commands behind a word, such as `lockstep plan`.
struct CommandGroup {
  std::string_view name;         ///< the word
  std::string_view kind, kinds;  ///< what one command of them is called, and several are
  std::string_view about;        ///< the first paragraph of its help
};
/// Runs the command that the first argument names; without any argument it prints their list. Throws UserError for an unknown
/// name.
int run_one_of(std::span<const Command> commands, const CommandGroup& group, const Arguments& arguments);

/// The command of this name. Throws UserError for an unknown name, with the nearest one: a `kind`, behind `program`.
const Command& find_command(std::span<const Command> commands, const std::string& name, std::string_view kind = "command",
                            const std::string& program = "lockstep");

/// The exit code of an error: kUserError, kBrokenRule, and kSystemError for every other error.
int exit_code_of(const std::exception_ptr& error);

/// Runs the command that `arguments` (without the program's name) ask for and returns the exit code. One of them is "help", which
/// stands for an empty line, -h and --help too. Errors go to `err`:
/// UserError 2, SystemError and every other exception 1, BrokenRule 70; a run that diverged returns kDiverged. A command whose
/// output cannot be written ends with 1, and without a word where its reader is gone.
int run_program(std::span<const Command> commands, const Arguments& arguments, std::FILE* out = stdout, std::FILE* err = stderr);

}  // namespace lockstep::app
