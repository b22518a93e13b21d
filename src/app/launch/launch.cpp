#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/folder/folder_owner.h"
#include "app/folder/run_name.h"
#include "app/folder/run_record.h"
#include "app/launch/environment.h"
#include "app/launch/folder_watch.h"
#include "app/launch/job.h"
#include "app/launch/restart.h"
#include "app/launch/silent_hosts.h"
#include "app/launch/supervise.h"
#include "base/shell.h"
#include "base/terminal.h"
#include "base/text/visible.h"

namespace lockstep::app {
namespace {

struct LaunchOptions {
  launch::Request request;
  double timeout = 0;
  std::int64_t retries = 0;
  bool dry_run = false;
  std::vector<std::string> command;  // what is behind --
};

bool parse(const Arguments& arguments, LaunchOptions& options, std::vector<Problem>& problems) {
  CommandLine line("launch",
                   "Run COMMAND on many ranks: lockstep launch [options] COMMAND ...\n"
                   "Finds the scheduler (Slurm, PBS or none), the hosts and what they have, prints the "
                   "mpiexec, mpirun or srun command, runs it and watches it. COMMAND is passed on as it is.");
  line.option("-n", options.request.ranks, "N", "ranks in all; left out: hosts x ppn");
  line.option("--ppn", options.request.per_host, "P", "ranks on every host; left out: one for each GPU, slot or core");
  line.option("--hostfile", options.request.hostfile, "FILE", "the hosts, one a line: HOST, HOST:4 or HOST slots=4");
  line.option("--nhosts", options.request.hosts, "N", "start ranks on the first N hosts of the job; left out: on all");
  line.option("--spares", options.request.spares, "N",
              "keep the job's last N hosts for a retry, in which they take the place of hosts that do not answer");
  line.option(
      "--cpu-bind", options.request.cpu_bind, "HOW",
      "which cores a rank gets, as mpiexec, srun (--cpu-bind) or mpirun (--bind-to) takes it; left out: depth under PBS, none "
      "for mpirun");
  line.flag("--oversubscribe", options.request.oversubscribe,
            "also more ranks than a host has cores (GPUs, slots) or memory for");
  line.option("--timeout", options.timeout, "SECONDS", "end a job that says nothing for so long (exit code 124); 0: never");
  line.option("--retries", options.retries, "N", "start a job that failed again; a training goes on from its last checkpoint");
  line.flag("--dry-run", options.dry_run, "print the command, run nothing");
  line.daily({"-n", "--ppn", "--hostfile", "--timeout", "--retries", "--dry-run"});
  line.note(
      "examples:\n"
      "  lockstep launch -n 2 train data/book --config configs/gpt2-124m.toml\n"
      "  lockstep launch --retries 3 --timeout 900 train data/book log.name=long\n"
      "Ctrl-C, SIGTERM and SIGUSR1 reach the ranks: a training ends its step, saves and leaves.");
  line.rest("COMMAND", options.command, "what each rank runs, with its own options: train ...; -- may stand before it");
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  Arguments own = arguments;
  own.erase(own.begin() + (dashes - arguments.begin()), own.end());
  if (!line.parse(own)) return false;
  if (dashes != arguments.end())
    options.command.insert(options.command.end(), dashes + (options.command.empty() ? 1 : 0), arguments.end());
  const auto require = [&](bool holds, std::string message, std::string remedy) {
    if (!holds) problems.push_back({std::move(message), std::move(remedy)});
  };
  require(!options.command.empty(), "there is nothing to launch", "lockstep launch [options] train ...");
  require(options.command.empty() || options.command[0] != "launch", "a launch cannot be launched", "-- train ...");
  require(options.timeout >= 0, fmt::format("--timeout {}: must not be negative", options.timeout), "--timeout 0 waits for ever");
  require(!options.request.spares || options.retries > 0,
          fmt::format("--spares {}: without --retries no host takes another one's place", options.request.spares.value_or(0)),
          "--retries 3, or leave --spares out");
  require(options.retries >= 0 && options.retries <= 1000, fmt::format("--retries {}: must be in 0 ... 1000", options.retries),
          "--retries 1");
  const bool has_ranks = std::any_of(options.command.begin(), options.command.end(),
                                     [](const std::string& word) { return word == "--ranks" || word.starts_with("--ranks="); });
  require(!has_ranks, "--ranks stands behind --, but the ranks are what launch starts", "write -n N in front of --");
  return true;
}

/// What a shell needs to go on with this job, in a file that its owner alone may read. Returns the file, or why there is none.
std::string save_environment(const launch::Facts& facts, const launch::Machine& machine, launch::Job& job) {
  std::string file = launch::environment_file(facts, machine);
  if (file.empty()) return "None: HOME is not set";
  if (const std::string head = first_bytes(file, 7); !head.empty() && head != "export ")
    return fmt::format("None: {} is there, and no launch wrote it", file);
  job.told.emplace_back("JOBENV_FILE", file);
  try {
    replace_private_file(file, launch::environment_text(facts, machine, job));
    return file;
  } catch (const std::exception& error) {
    job.told.pop_back();
    return fmt::format("None: {}", error.what());
  }
}

/// With what the ranks are told.
std::vector<std::pair<std::string, std::string>> environment_of(const launch::Job& job) {
  std::vector<std::pair<std::string, std::string>> all = job.environment;
  all.insert(all.end(), job.told.begin(), job.told.end());
  return all;
}

/// Blocks as ezpz has them. `saved`: what became of the job's environment.
std::string blocks_of(const launch::Facts& facts, const launch::Machine& machine, const launch::Job& job,
                      const std::string& saved) {
  const auto variable = [&](const char* name) {
    const auto found = machine.variables.find(name);
    return found == machine.variables.end() || found->second.empty() ? std::string("None") : found->second;
  };
  std::string text;
  const auto add = [&text]<class... Values>(fmt::format_string<Values...> form, Values&&... values) {
    text += fmt::format(form, std::forward<Values>(values)...);
  };
  const std::string hostfile = facts.hostfile.empty() ? "None" : facts.hostfile;
  add("[ezpz/bin/utils.sh]\n  • USER={}\n  • MACHINE={}\n  • HOST={}\n", variable("USER"), facts.machine, machine.host);
  add("\n[ezpz_setup_host]\n  • HOSTFILE={}\n", hostfile);
  if (facts.scheduler != launch::Scheduler::none) {
    add("\n[ezpz_save_{}_env]\n  • JOBENV_FILE={}\n", facts.scheduler == launch::Scheduler::pbs ? "pbs" : "slurm", saved);
  }
  add("\n[HOSTS]\n");
  for (std::size_t i = 0; i < facts.hosts.size(); ++i) add("  • [host:{}] - {}\n", i, facts.hosts[i]);
  add("\n[DIST INFO]\n");
  add("  • HOSTFILE={}\n", hostfile);
  add("  • NHOSTS={}\n", facts.job_hosts);
  add("  • NGPU_PER_HOST={}\n", facts.devices);
  add("  • NGPUS={}\n", facts.job_devices());
  add("  • DIST_LAUNCH={}\n", job.launcher.empty() ? "None" : shell_words(job.launcher));
  add("\n[LAUNCH]\n");
  for (const std::string& note : job.notes) add("  • {}\n", note);
  add("  • {}\n\n", launch::shell_text(job));
  return text;
}

// Before a retry: a host file may have lost a host meanwhile, and a host may have gone. `before`: of the attempt before.
launch::Facts facts_now(const launch::Machine& machine, launch::Request request, const launch::Facts& before,
                        std::vector<Problem>& problems) {
  launch::Facts facts = launch::find_facts(machine, request, problems);
  if (!problems.empty()) return facts;
  request.left_out = launch::silent_hosts(machine, facts);
  if (request.left_out.empty()) return facts;
  if (std::exchange(request.ranks, std::nullopt)) request.per_host = before.per_host;
  return launch::find_facts(machine, request, problems);
}

int run(const Arguments& arguments) {
  LaunchOptions options;
  std::vector<Problem> problems;
  if (!parse(arguments, options, problems)) return 0;
  options.request.again = options.retries > 0;
  const launch::Machine machine = launch::this_machine();
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  launch::Facts facts = launch::find_facts(machine, options.request, problems);
  launch::RestartFacts again{.again = options.retries > 0, .generated_name = run_name_from_time()};
  if (problems.empty()) again.ranks = facts.ranks;
  const launch::Restart restart(options.command, again, problems);
  if (!problems.empty()) throw UserError(std::move(problems));
  const auto job_of = [&](const Arguments& command) {
    launch::Job job = launch::make_job(facts, machine, program, command, problems);
    if (!problems.empty()) throw UserError(problems);
    return job;
  };
  launch::Job first = job_of(restart.command());
  if (!restart.added_folder().empty()) {
    first.notes.push_back(fmt::format("log.dir={} was added, so that a retry finds the run", restart.added_folder()));
  }
  const std::string saved = options.dry_run ? "None: with --dry-run nothing is written" : save_environment(facts, machine, first);
  say(stdout, visible(blocks_of(facts, machine, first, saved), LineBreaks::kept));
  if (options.dry_run) return 0;

  const auto tell = [](const std::string& text) {
    say(stderr, fmt::format("lockstep launch: {}\n", visible(text, LineBreaks::kept)));
  };
  // mpirun, mpiexec and srun kill the ranks for a SIGINT or SIGTERM, but pass a SIGUSR1 on to them, for which they save and
  // leave.
  launch::Supervisor supervisor({.timeout = options.timeout,
                                 .leaving = options.retries > 0 ? 5.0 : 20.0,
                                 .stop_signal = first.launcher.empty() ? 0 : SIGUSR1});
  const launch::FolderWatch folder(options.retries > 0 ? restart.folder() : "");
  const auto process = [&](int attempt) -> launch::Process {
    const std::string rank_program = first.launcher.empty() ? "" : program;
    if (attempt == 0) return {first.words, environment_of(first), rank_program};
    folder.demand();
    const launch::Facts before = std::exchange(facts, facts_now(machine, options.request, facts, problems));
    launch::Job job = job_of(restart.retry(facts.ranks));
    save_environment(facts, machine, job);
    if (facts.hosts != before.hosts) tell(fmt::format("the ranks' hosts are {} now", fmt::join(facts.hosts, ", ")));
    if (facts.ranks != before.ranks) tell(fmt::format("the number of ranks is {} now, it was {}", facts.ranks, before.ranks));
    tell("starting again: " + launch::shell_text(job));
    return {job.words, environment_of(job), rank_program};
  };
  const launch::Retries retries{.count = static_cast<int>(options.retries),
                                .progress = [&restart] { return restart.reached_step(); }};
  return launch::run_with_retries(supervisor, retries, process, tell);
}

}  // namespace

Command launch_command() { return {"launch", "run a command on many ranks, watched and restarted", run, true}; }

}  // namespace lockstep::app
