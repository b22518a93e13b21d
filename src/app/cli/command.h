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
inline constexpr int kInterrupted = 130, kTerminated = 143;  // by SIGINT, by SIGTERM: 128 and the number, as of a shell

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
  /// Does the work; `arguments` are those behind the name. Returns the exit code. They go to a CommandLine.
  std::function<int(const Arguments& arguments)> run;
  /// What it prints only accompanies its work, which goes on when its reader is gone.
  bool works_unread = false;
};

/// Commands behind a word, such as `lockstep plan`.
struct CommandGroup {
  std::string_view name;         ///< the word
  std::string_view kind, kinds;  ///< what one is, and several are
  std::string_view about;        ///< the first paragraph of its help
};
/// Runs the one that the first argument names; without any it prints their list. Throws UserError for an unknown name.
int run_one_of(std::span<const Command> commands, const CommandGroup& group, const Arguments& arguments);

/// The command of a name. Throws UserError for another, with the nearest: a `kind`, behind `program`.
const Command& find_command(std::span<const Command> commands, const std::string& name, std::string_view kind = "command",
                            const std::string& program = "lockstep");

/// That of an error: kUserError, kBrokenRule, and kSystemError for every other.
int exit_code_of(const std::exception_ptr& error);

/// Runs the command that `arguments` (without the program's name) ask for and returns the exit code. One of them is "help", which
/// stands for an empty line, -h and --help too. Errors go to `err`:
/// UserError 2, SystemError and every other exception 1, BrokenRule 70; a run that diverged returns kDiverged. A command whose
/// output cannot be written ends with 1, and without a word where its reader is gone.
int run_program(std::span<const Command> commands, const Arguments& arguments, std::FILE* out = stdout, std::FILE* err = stderr);

}  // namespace lockstep::app
