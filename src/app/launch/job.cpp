#include "app/launch/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/folder/manifest.h"
#include "base/shell.h"
#include "train/report/drill_fault.h"

namespace lockstep::launch {
namespace {

std::vector<std::string> pbs(const Facts& facts) {
  std::vector<std::string> words{
      "mpiexec", "--verbose", "--envall", "-n", std::to_string(facts.ranks), "-ppn", std::to_string(facts.per_host)};
  if (facts.some_left_out) {  // of a file mpiexec would take the first
    words.insert(words.end(), {"--hosts", fmt::format("{}", fmt::join(facts.hosts, ","))});
  } else {
    words.insert(words.end(), {"--hostfile", facts.hostfile});
  }
  words.insert(words.end(), {"--cpu-bind", facts.cpu_bind.empty() ? "depth" : facts.cpu_bind});
  if (words.back() == "depth") words.insert(words.end(), {"-d", std::to_string(facts.cpus_per_rank)});
  return words;
}

std::vector<std::string> srun(const Facts& facts) {
  std::vector<std::string> words{"srun",
                                 "-l",
                                 "-u",
                                 "--verbose",
                                 "--kill-on-bad-exit=1",
                                 fmt::format("-N{}", facts.hosts.size()),
                                 fmt::format("-n{}", facts.ranks)};
  if (facts.cpus_per_rank > 1) words.push_back(fmt::format("-c{}", facts.cpus_per_rank));
  if (facts.gpus > 0) words.push_back(fmt::format("--gpus-per-node={}", facts.gpus));
  if (!facts.cpu_bind.empty()) words.push_back("--cpu-bind=" + facts.cpu_bind);
  const bool some_hosts = std::ssize(facts.hosts) < facts.job_hosts;
  if (some_hosts || !facts.hostfile.empty()) words.push_back(fmt::format("--nodelist={}", fmt::join(facts.hosts, ",")));
  return words;
}

// Open MPI finds the other ranks of a step by PMIx, which need not be what Slurm starts by default.
bool must_ask_for_pmix(const Machine& machine, std::vector<Problem>& problems) {
  if (machine.variables.contains("SLURM_MPI_TYPE")) return false;
  try {
    return machine.output_of({"srun", "--mpi=list"}).value_or("").find("pmix") != std::string::npos;
  } catch (const SystemError& error) {
    problems.push_back({error.what(), "say how ranks find each other: SLURM_MPI_TYPE=pmix in the environment"});
    return false;
  }
}

// For mpirun.
std::vector<std::pair<std::string, std::string>> open_mpi_variables(const Facts& facts, const Machine& machine) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (machine.root) variables = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  // When a rank has died, mpirun gives the others a second after its SIGTERM, and another one after an error of theirs. They have
  // nothing to do in it where the job starts again. Open MPI 4 reads the first name and 5, by PRRTE, the second
  // (odls_base_frame.c of either).
  if (facts.again) {
    for (const char* family : {"OMPI", "PRTE"})
      variables.emplace_back(fmt::format("{}_MCA_odls_base_sigkill_timeout", family), "0");
  }
  return variables;
}

// It takes none of the options of PBS's launchers, and is started with the job's hosts as elsewhere.
bool is_open_mpi(const Machine& machine, std::vector<Problem>& problems) {
  try {
    const std::string version = machine.output_of({"mpiexec", "--version"}).value_or("");
    return version.find("OpenRTE") != std::string::npos || version.find("Open MPI") != std::string::npos;
  } catch (const SystemError& error) {
    problems.push_back({error.what(), "mend it, or start ranks by mpirun: LOCKSTEP_SCHEDULER=none in the environment"});
    return false;
  }
}

bool is_here(const Facts& facts, const Machine& machine) { return facts.hosts.size() == 1 && is_named(machine, facts.hosts[0]); }

// What ranks are told.
std::vector<std::pair<std::string, std::string>> told_of(const Facts& facts, const std::vector<std::string>& launcher) {
  std::vector<std::pair<std::string, std::string>> told;
  if (!facts.hostfile.empty()) told.emplace_back("HOSTFILE", facts.hostfile);
  told.emplace_back("NHOSTS", std::to_string(facts.job_hosts));
  told.emplace_back("NGPU_PER_HOST", std::to_string(facts.devices));
  told.emplace_back("NGPUS", std::to_string(facts.job_devices()));
  told.emplace_back("DIST_LAUNCH", shell_words(launcher));
  return told;
}

// Open MPI. Binding is left to the program, which divides the cores of a host among its ranks, unless it is asked for. Hosts
// elsewhere get the variables that dist_info prints.
std::vector<std::string> mpirun(const Facts& facts, const Machine& machine) {
  std::vector<std::string> words{machine.installed("mpirun") ? "mpirun" : "mpiexec", "-n", std::to_string(facts.ranks),
                                 "--bind-to", facts.cpu_bind.empty() ? "none" : facts.cpu_bind};
  if (!is_here(facts, machine)) {
    std::string slots;
    for (const std::string& host : facts.hosts) slots += fmt::format("{}{}:{}", slots.empty() ? "" : ",", host, facts.per_host);
    words.insert(words.end(), {"--host", slots, "--map-by", fmt::format("ppr:{}:node", facts.per_host)});
    for (const auto& [name, value] : told_of(facts, {})) words.insert(words.end(), {"-x", name});
    if (machine.variables.contains(train::DrillFault::variable)) words.insert(words.end(), {"-x", train::DrillFault::variable});
  }
  if (facts.per_host > machine.cores) words.emplace_back("--oversubscribe");
  return words;
}

}  // namespace

Job make_job(const Facts& facts, const Machine& machine, const std::string& program, const std::vector<std::string>& command,
             std::vector<Problem>& problems) {
  Job job;
  std::vector<std::string> ranks;  // the option of the program itself
  if (facts.scheduler == Scheduler::slurm) {
    job.launcher = srun(facts);
    if (!machine.installed("srun")) {
      problems.push_back({"Slurm is the scheduler here, and srun is not installed",
                          "load Slurm's module, or start ranks by mpirun: LOCKSTEP_SCHEDULER=none in the environment"});
    }
    if (must_ask_for_pmix(machine, problems)) job.environment = {{"SLURM_MPI_TYPE", "pmix"}};
  } else if (facts.scheduler == Scheduler::pbs && !is_open_mpi(machine, problems)) {
    job.launcher = pbs(facts);
  } else if (machine.installed("mpirun") || machine.installed("mpiexec")) {
    job.launcher = mpirun(facts, machine);
    job.environment = open_mpi_variables(facts, machine);
  } else if (is_here(facts, machine)) {
    if (!facts.cpu_bind.empty()) {
      problems.push_back({fmt::format("--cpu-bind {}: neither mpirun nor mpiexec is installed, and ranks that are threads share "
                                      "their process's cores out",
                                      facts.cpu_bind),
                          "leave it out, or install Open MPI (Debian: apt install openmpi-bin)"});
    }
    if (facts.ranks > 1) {
      ranks = {"--ranks", std::to_string(facts.ranks)};
      job.notes.emplace_back("neither mpirun nor mpiexec is installed: the ranks are threads of one process");
    }
  } else {
    problems.push_back({fmt::format("neither mpirun nor mpiexec is installed, and only they reach {}", facts.hosts.front()),
                        "install Open MPI (Debian: apt install openmpi-bin)"});
  }
  if (facts.scheduler == Scheduler::none && facts.per_host > machine.cores) {
    job.notes.push_back(fmt::format("{} ranks share {} cores, as asked for", facts.per_host, machine.cores));
  }
  if (!facts.spare_hosts.empty() && facts.again) {
    job.notes.push_back(
        fmt::format("spare, for a host that does not answer before a retry: {}", fmt::join(facts.spare_hosts, ", ")));
  } else if (!facts.spare_hosts.empty()) {
    job.notes.push_back(fmt::format("{} of the job's {} hosts: the first", facts.hosts.size(), facts.job_hosts));
  }
  if (!job.launcher.empty()) job.told = told_of(facts, job.launcher);
  job.words = job.launcher;
  job.words.push_back(program);
  job.words.push_back(command.front());
  job.words.insert(job.words.end(), ranks.begin(), ranks.end());
  job.words.insert(job.words.end(), command.begin() + 1, command.end());
  return job;
}

std::string shell_text(const Job& job) {
  std::string text;
  for (const auto& [name, value] : job.environment) text += fmt::format("{}={} ", name, shell_words({value}));
  return text + shell_words(job.words);
}

std::string environment_file(const Facts& facts, const Machine& machine) {
  const auto home = machine.variables.find("HOME");
  if (facts.scheduler == Scheduler::none || home == machine.variables.end() || home->second.empty()) return "";
  return home->second + (facts.scheduler == Scheduler::pbs ? "/.pbsenv" : "/.slurmenv");
}

std::string environment_text(const Facts& facts, const Machine& machine, const Job& job) {
  const std::string_view own = facts.scheduler == Scheduler::pbs ? "PBS_" : "SLURM_";
  std::map<std::string, std::string> kept;
  for (const auto& [name, value] : machine.variables) {
    if (name.starts_with(own) && app::may_be_kept(name)) kept[name] = app::without_credentials(value);
  }
  for (const auto& [name, value] : job.told) kept[name] = value;
  std::string text;
  for (const auto& [name, value] : kept) text += fmt::format("export {}={}\n", name, shell_words({value}));
  return text;
}

}  // namespace lockstep::launch
