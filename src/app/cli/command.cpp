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
#include "app/settings/config_help.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text/columns.h"
#include "base/text/visible.h"
#include "comm/mpi/mpi_job.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

std::string program_help(std::span<const Command> commands) {
  std::vector<HelpRow> rows;
  for (const Command& command : commands) rows.push_back({command.name, command.summary});
  rows.push_back({"help", "this text; help COMMAND; help config [GROUP or KEY]: the settings"});
  return fmt::format(
      "lockstep {}: trains GPT-style language models\n\n"
      "usage: lockstep COMMAND [options] [group=option ...] [group.key=value ...]\n\ncommands:\n{}\n"
      "options:\n{}\n"
      "first steps:\n"
      "  lockstep prepare book.txt --tokenizer char --out data/book   text becomes tokens\n"
      "  lockstep train data/book train.max_iters=2000                tokens become a model\n"
      "  lockstep generate runs/NAME                                  the model writes text\n",
      kVersion, two_columns(rows),
      two_columns({{"--help", "this text; behind a command: its own"},
                   {"-V, --version", "the version, and the commit that it was built from"}}));
}

/// `program`: what is typed before the name. `names`: further ones that there are.
const Command& find_command(std::span<const Command> commands, const std::string& name, std::string_view kind = "command",
                            const std::string& program = "lockstep", std::vector<std::string> names = {}) {
  const auto found = std::ranges::find(commands, name, &Command::name);
  if (found != commands.end()) return *found;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string near = nearest_name(name, names);
  throw UserError(fmt::format("unknown {} '{}'", kind, name),
                  near.empty() ? program + " --help lists them" : fmt::format("did you mean {} {}?", program, near));
}

int run_help(std::span<const Command> commands, Arguments topic, std::FILE* out) {
  std::erase_if(topic, [](const std::string& word) { return word == "--help" || word == "-h"; });
  if (topic.empty()) {
    std::fputs(program_help(commands).c_str(), out);
    return 0;
  }
  if (topic[0] == "config") {
    std::fputs(settings::config_help(topic.size() > 1 ? topic[1] : "").c_str(), out);
    return 0;
  }
  return find_command(commands, topic[0]).run({"--help"});
}

int run_command(const Command& command, const Arguments& arguments) {
  try {
    return command.run(arguments);
  } catch (const std::filesystem::filesystem_error& error) {
    io::throw_file_error(error.code().value(), "use", error.path1());
  }
}

int dispatch(std::span<const Command> commands, const Arguments& arguments, std::FILE* out) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") return run_help(commands, {}, out);
  if (arguments[0] == "help") return run_help(commands, {arguments.begin() + 1, arguments.end()}, out);
  if (arguments[0] == "--version" || arguments[0] == "-V" || arguments[0] == "version") {
    std::fputs((program_version() + "\n").c_str(), out);
    return 0;
  }
  return run_command(find_command(commands, arguments[0], "command", "lockstep", {"help"}),
                     {arguments.begin() + 1, arguments.end()});
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

int run_one_of(std::span<const Command> commands, const CommandGroup& group, const Arguments& arguments) {
  const std::string program = fmt::format("lockstep {}", group.name);
  if (!arguments.empty() && arguments[0] != "--help" && arguments[0] != "-h")
    return find_command(commands, arguments[0], group.kind, program).run({arguments.begin() + 1, arguments.end()});
  std::vector<HelpRow> rows;
  for (const Command& command : commands) rows.push_back({command.name, command.summary});
  fmt::print("usage: {} NAME [options]\n\n{}\n\n{}:\n{}\n{} NAME --help says more.\n", program, folded(group.about, 100),
             group.kinds, two_columns(rows), program);
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
    std::fputs(fmt::format("lockstep: {}{}\n", kind, visible(text, LineBreaks::kept)).c_str(), err);
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
