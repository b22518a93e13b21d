#include "app/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>

#include "app/cli/build_info.h"
#include "app/cli/commit.h"
#include "app/cli/help_text.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text/paint.h"
#include "base/text/visible.h"
#include "comm/mpi/mpi_job.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

/// Takes a --color that stands in front.
void take_colours(Arguments& words) {
  constexpr std::string_view option = "--color";
  if (words.empty() || !words[0].starts_with(option)) return;
  const bool apart = words[0] == option && words.size() > 1;
  if (!apart && !words[0].starts_with("--color=")) return;
  choose_colours(apart ? words[1] : words[0].substr(option.size() + 1));
  words.erase(words.begin(), words.begin() + (apart ? 2 : 1));
}

int run_command(const Command& command, const Arguments& arguments) {
  try {
    return command.run(arguments);
  } catch (const std::filesystem::filesystem_error& error) {
    io::throw_file_error(error.code().value(), "use", error.path1());
  }
}

int dispatch(std::span<const Command> commands, Arguments words, std::FILE* out) {
  take_colours(words);
  if (words.empty()) words = {"-h"};
  if (words[0] == "--help" || words[0] == "-h") words = {"help", words[0]};
  if (words[0] == "--version" || words[0] == "-V" || words[0] == "version") {
    std::fputs((program_version() + "\n").c_str(), out);
    return 0;
  }
  return run_command(find_command(commands, words[0]), {words.begin() + 1, words.end()});
}

/// `code`: why, an errno; 0: not known.
std::string lost_output(int code) {
  return "the output cannot be written" + (code == 0 ? std::string() : fmt::format(": {}", std::strerror(code)));
}

/// Whether what was printed only accompanied work: not so of help, and of what a dry run tells.
bool worked_unread(std::span<const Command> commands, const Arguments& arguments) {
  if (arguments.empty()) return false;
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  const bool tells = std::any_of(arguments.begin(), end,
                                 [](const std::string& word) { return word == "--dry-run" || word == "--help" || word == "-h"; });
  return !tells && std::any_of(commands.begin(), commands.end(),
                               [&](const Command& command) { return command.works_unread && command.name == arguments[0]; });
}

/// `code`, unless something of the output was lost.
int finish_output(std::span<const Command> commands, const Arguments& arguments, std::FILE* out, int code) {
  const bool works_unread = worked_unread(commands, arguments);
  const bool flushed = std::fflush(out) == 0;
  if (works_unread || (flushed && std::ferror(out) == 0)) return code;
  throw SystemError(lost_output(flushed ? 0 : errno));
}

/// A launcher ends all ranks once one has ended with an error: what each of them would say is said once.
void let_the_first_rank_speak() {
  constexpr auto until_the_launcher_acts = std::chrono::seconds(3);  // Open MPI: some 1.1 s
  const std::optional<comm::MpiJob> job = comm::find_mpi_job();
  if (job && job->rank > 0) std::this_thread::sleep_for(until_the_launcher_acts);
}

}  // namespace

const Command& find_command(std::span<const Command> commands, const std::string& name, std::string_view kind,
                            const std::string& program) {
  const auto found = std::ranges::find(commands, name, &Command::name);
  if (found != commands.end()) return *found;
  if (name.empty()) throw UserError(fmt::format("the {} is an empty word", kind), program + " --help lists them");
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string near = nearest_name(name, names);
  throw UserError(fmt::format("unknown {} '{}'", kind, name),
                  near.empty() ? program + " --help lists them" : fmt::format("did you mean {} {}?", program, near));
}

int run_one_of(std::span<const Command> commands, const CommandGroup& group, const Arguments& arguments) {
  Arguments words = arguments;
  take_colours(words);
  const bool listed = words.empty() || words[0] == "--help" || words[0] == "-h";
  if (arguments.described == nullptr && !listed) {
    const std::string program = fmt::format("lockstep {}", group.name);
    return find_command(commands, words[0], group.kind, program).run({words.begin() + 1, words.end()});
  }
  CommandSheet sheet{.name = std::string(group.name), .summary = {}, .about = std::string(group.about)};
  sheet.kinds = group.kinds;
  for (const Command& command : commands)
    sheet.commands.push_back(arguments.described != nullptr ? sheet_of(command)
                                                            : CommandSheet{command.name, command.summary, ""});
  if (arguments.described != nullptr) {
    *arguments.described = std::move(sheet);
  } else {
    std::fputs(help_text(sheet, help_form(stdout, !words.empty() && words[0] == "-h")).c_str(), stdout);
  }
  return 0;
}

int exit_code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError&) {
    return kUserError;
  } catch (const BrokenRule&) {
    return kBrokenRule;
  } catch (...) {
    return kSystemError;
  }
}

int run_program(std::span<const Command> commands, const Arguments& arguments, std::FILE* out, std::FILE* err) {
  const auto report = [err](std::string_view kind, std::string_view text, int code) {
    let_the_first_rank_speak();
    std::fputs((Paint(err).error(fmt::format("lockstep: {}{}", kind, visible(text, LineBreaks::kept))) + "\n").c_str(), err);
    return code;
  };
  try {
    return finish_output(commands, arguments, out, dispatch(commands, arguments, out));
  } catch (const UserError& error) {
    return report(error.problems().size() > 1 ? fmt::format("{} problems\n", error.problems().size()) : "", error.what(),
                  kUserError);
  } catch (const BrokenRule& error) {
    return report("a bug of this program: ", error.what(), kBrokenRule);
  } catch (const std::bad_alloc&) {
    return report("", "out of memory", kSystemError);
  } catch (const std::exception& error) {
    if (is_unread(out)) return kSystemError;
    const auto* const failed = dynamic_cast<const std::system_error*>(&error);  // what fmt::print() throws
    if (failed != nullptr && std::ferror(out) != 0) return report("", lost_output(failed->code().value()), kSystemError);
    return report("", error.what(), kSystemError);
  }
}

}  // namespace lockstep::app
