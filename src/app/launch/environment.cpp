#include "app/launch/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "app/launch/known_machines.h"
#include "base/number_text.h"
#include "base/text/utf8.h"
#include "base/units.h"

namespace lockstep::launch {
namespace {

constexpr std::int64_t kMost = 1'000'000;  // of anything that is counted here
constexpr const char* outside_remedy =
    "launch inside of a job (qsub, sbatch, salloc), name the hosts by --hostfile FILE, or start ranks here with "
    "LOCKSTEP_SCHEDULER=none in the environment";

std::optional<std::int64_t> positive_number(std::string_view text) {
  const auto value = number_from<std::int64_t>(text);
  return value && *value >= 1 && *value <= kMost ? value : std::nullopt;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

class Finder {
 public:
  Finder(const Machine& machine, const Request& request, std::vector<Problem>& problems)
      : machine_(machine), request_(request), problems_(problems) {}

  Facts find() {
    const std::string* submitted_from = variable("PBS_O_HOST");
    facts_.machine = machine_of(machine_.host, submitted_from != nullptr ? *submitted_from : "");
    facts_.cpu_bind = request_.cpu_bind;
    facts_.again = request_.again;
    facts_.scheduler = find_scheduler();
    find_hosts();
    take_first_hosts();
    find_devices();
    find_ranks();
    return facts_;
  }

 private:
  Scheduler find_scheduler();
  void find_hosts();
  void find_hosts_of_slurm();
  void read_hosts(const std::string& path, const std::string& source);
  void read_host(const std::string& line, const std::string& source);
  void check_names(const std::string& source);
  /// How many hosts get ranks, where so many are there.
  std::size_t wanted_hosts();
  void take_first_hosts();
  void find_devices();
  void find_ranks();
  void check_room();

  // What a command prints; one that does not end is a problem with this remedy.
  std::optional<std::string> output_of(const std::vector<std::string>& command, const std::string& remedy) {
    try {
      return machine_.output_of(command);
    } catch (const SystemError& error) {
      wrong(error.what(), remedy);
      return std::nullopt;
    }
  }
  const std::string* variable(const std::string& name) const {
    const auto found = machine_.variables.find(name);
    return found == machine_.variables.end() || found->second.empty() ? nullptr : &found->second;
  }
  std::optional<std::int64_t> number(const std::string& name);
  void wrong(std::string message, std::string remedy) { problems_.push_back({std::move(message), std::move(remedy)}); }
  void devices_are(std::int64_t count, std::string source) {
    facts_.devices = count;
    devices_source_ = std::move(source);
  }

  const Machine& machine_;
  const Request& request_;
  std::vector<Problem>& problems_;
  Facts facts_;
  std::vector<std::int64_t> slots_;  // of every host, as its file says
  bool slots_stated_ = false;
  std::optional<std::int64_t> cpus_;           // hardware threads of a host
  std::optional<std::int64_t> cpus_per_task_;  // as Slurm was asked
  std::string devices_source_;                 // what says how many
};

// A variable of the form 4 or, as Slurm writes what differs between hosts, 4(x2),2 (src/common/env.c): the least. 0 says that
// there is none, as scripts write it that count the GPUs of a host.
std::optional<std::int64_t> Finder::number(const std::string& name) {
  const std::string* text = variable(name);
  if (text == nullptr) return std::nullopt;
  std::optional<std::int64_t> least;
  std::istringstream parts(*text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string count = part.substr(0, part.find('('));
    const auto value = count == "0" ? 0 : positive_number(count);
    if (!value) {
      wrong(fmt::format("{} = '{}' is no number in 0 ... {}", name, *text, kMost), "correct or unset it");
      return std::nullopt;
    }
    least = std::min(least.value_or(*value), *value);
  }
  return least == 0 ? std::nullopt : least;
}

Scheduler Finder::find_scheduler() {
  if (const std::string* name = variable("LOCKSTEP_SCHEDULER")) {
    if (*name == "slurm") return Scheduler::slurm;
    if (*name == "pbs") return Scheduler::pbs;
    if (*name != "none") {
      wrong(fmt::format("LOCKSTEP_SCHEDULER = '{}' is no scheduler", *name), "one of slurm, pbs, none, or unset it");
    }
    return Scheduler::none;
  }
  if (variable("SLURM_JOB_ID") != nullptr) return Scheduler::slurm;
  if (variable("PBS_NODEFILE") != nullptr || variable("PBS_JOBID") != nullptr) return Scheduler::pbs;
  return scheduler_of(facts_.machine);
}

void Finder::find_hosts() {
  if (!request_.hostfile.empty()) {
    read_hosts(request_.hostfile, "--hostfile");
    check_names("--hostfile");
  } else if (const std::string* path = variable("HOSTFILE")) {
    read_hosts(*path, "HOSTFILE");
    check_names("HOSTFILE");
  } else if (facts_.scheduler == Scheduler::slurm) {
    find_hosts_of_slurm();
  } else if (facts_.scheduler == Scheduler::none) {
    facts_.hosts = {machine_.host};
  } else if (const std::string* nodes = variable("PBS_NODEFILE")) {
    read_hosts(*nodes, "PBS_NODEFILE");
  } else if (const std::string* id = variable("PBS_JOBID")) {
    read_hosts("/var/spool/pbs/aux/" + *id, "PBS_JOBID");
  } else {
    wrong(fmt::format("PBS is the scheduler of {}, but neither PBS_NODEFILE nor PBS_JOBID is set", facts_.machine),
          outside_remedy);
  }
}

void Finder::find_hosts_of_slurm() {
  const std::string* list = variable("SLURM_JOB_NODELIST");
  if (list == nullptr) list = variable("SLURM_NODELIST");
  if (list == nullptr) {
    wrong(fmt::format("Slurm is the scheduler of {}, but SLURM_JOB_NODELIST is not set", facts_.machine), outside_remedy);
    return;
  }
  const auto printed = output_of({"scontrol", "show", "hostnames", *list}, "name the hosts: --hostfile FILE");
  facts_.hosts = printed ? lines_of(*printed) : expand_node_list(*list);
  if (facts_.hosts.empty()) {
    wrong(fmt::format("SLURM_JOB_NODELIST = '{}' is no list of hosts", *list), "name the hosts: --hostfile FILE");
  }
}

void Finder::read_hosts(const std::string& path, const std::string& source) {
  facts_.hostfile = path;
  const auto content = machine_.read_file(path);
  if (!content) {
    wrong(fmt::format("{} {}: it is missing or cannot be read", source, path),
          "give a file with the name of a host on every line");
    return;
  }
  const std::size_t problems = problems_.size();
  const std::string place = fmt::format("{} {}", source, path);
  for (const std::string& line : lines_of(std::string(without_mark(*content)))) read_host(line, place);
  if (facts_.hosts.empty() && problems_.size() == problems) {
    wrong(fmt::format("{} {}: it names no host", source, path), "write the name of a host on every line");
  }
}

// "host", "host slots=4" (Open MPI) or "host:4" (MPICH); a host that comes again (PBS) has a slot more.
void Finder::read_host(const std::string& line, const std::string& source) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string name;
  if (!(words >> name)) return;
  const std::size_t colon = name.find(':');
  std::string slots = colon == std::string::npos ? "" : name.substr(colon + 1);
  for (std::string word; words >> word;) {
    if (word.starts_with("slots=")) slots = word.substr(6);
  }
  const bool has_count = colon != std::string::npos || !slots.empty();
  name.resize(std::min(colon, name.size()));
  const auto count = has_count ? positive_number(slots) : 1;
  if (!count || name.empty()) {
    wrong(fmt::format("{}: '{}' names no host with a number of slots", source, line), "write HOST, HOST:4 or HOST slots=4");
    return;
  }
  const auto found = std::find(facts_.hosts.begin(), facts_.hosts.end(), name);
  slots_stated_ = slots_stated_ || has_count || found != facts_.hosts.end();
  if (found != facts_.hosts.end()) {
    slots_[static_cast<std::size_t>(found - facts_.hosts.begin())] += *count;
  } else {
    facts_.hosts.push_back(name);
    slots_.push_back(*count);
  }
}

void Finder::check_names(const std::string& source) {
  std::vector<std::string> unknown;
  for (const std::string& host : facts_.hosts) {
    if (!machine_.resolves(host)) unknown.push_back(host);
  }
  if (unknown.empty()) return;
  wrong(fmt::format("{} {}: there is no address of the host{} {}", source, facts_.hostfile, unknown.size() > 1 ? "s" : "",
                    fmt::join(unknown, ", ")),
        "correct the name, or make it known (/etc/hosts, DNS)");
}

std::size_t Finder::wanted_hosts() {
  const std::int64_t all = facts_.job_hosts;
  const std::string has = fmt::format("the job has {} host{}", all, all == 1 ? "" : "s");
  if (request_.hosts && request_.spares) {
    wrong(fmt::format("--nhosts {} --spares {}: each says how many hosts get ranks", *request_.hosts, *request_.spares),
          "leave one of the two out: hosts behind the first --nhosts are spare too");
  } else if (request_.hosts && (*request_.hosts < 1 || *request_.hosts > all)) {
    wrong(fmt::format("--nhosts {}: {}", *request_.hosts, has), fmt::format("--nhosts {}, or leave it out", all));
  } else if (request_.spares && (*request_.spares < 0 || *request_.spares >= all)) {
    wrong(fmt::format("--spares {}: {}, and one at least must get ranks", *request_.spares, has),
          all > 1 ? fmt::format("--spares {} or less", all - 1) : "leave it out, or name more hosts by --hostfile FILE");
  } else {
    return static_cast<std::size_t>(request_.hosts.value_or(all - request_.spares.value_or(0)));
  }
  return facts_.hosts.size();
}

void Finder::take_first_hosts() {
  facts_.job_hosts = std::ssize(facts_.hosts);
  if (facts_.hosts.empty()) return;
  const std::size_t wanted = wanted_hosts();
  const std::vector<std::string> all = std::exchange(facts_.hosts, {});
  const std::vector<std::int64_t> slots = std::exchange(slots_, {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (request_.left_out.contains(all[i])) {
      facts_.some_left_out = true;
      continue;
    }
    if (facts_.hosts.size() == wanted) {
      facts_.spare_hosts.push_back(all[i]);
      continue;
    }
    facts_.hosts.push_back(all[i]);
    if (i < slots.size()) slots_.push_back(slots[i]);
  }
}

void Finder::find_devices() {
  const bool slurm = facts_.scheduler == Scheduler::slurm;
  cpus_ = slurm ? number("SLURM_JOB_CPUS_PER_NODE") : machine_.cpus;
  if (!cpus_) cpus_ = number("SLURM_CPUS_ON_NODE");
  if (slurm) cpus_per_task_ = number("SLURM_CPUS_PER_TASK");
  const auto tasks = slurm ? number("SLURM_NTASKS_PER_NODE") : std::nullopt;
  if (slurm) {
    facts_.gpus = number("SLURM_GPUS_ON_NODE").value_or(0);
  } else if (variable("NGPU_PER_HOST") == nullptr) {
    constexpr auto remedy = "mend the driver, or say how many ranks a host has room for: NGPU_PER_HOST=N in the environment";
    const std::vector<std::string> lines = lines_of(output_of({"nvidia-smi", "-L"}, remedy).value_or(""));
    facts_.gpus = std::count_if(lines.begin(), lines.end(), [](const std::string& line) { return line.starts_with("GPU "); });
  }
  if (const auto asked = number("NGPU_PER_HOST")) {
    devices_are(*asked, "NGPU_PER_HOST");
  } else if (facts_.gpus > 0) {
    devices_are(facts_.gpus, slurm ? "SLURM_GPUS_ON_NODE" : "GPUs that nvidia-smi lists");
  } else if (devices_of(facts_.machine) > 0) {
    devices_are(devices_of(facts_.machine), "those of a host of " + facts_.machine);
  } else if (tasks) {
    devices_are(*tasks, "SLURM_NTASKS_PER_NODE");
  } else if (slots_stated_ && !slots_.empty()) {
    devices_are(*std::min_element(slots_.begin(), slots_.end()), "slots in " + facts_.hostfile);
  } else if (slurm && cpus_) {
    devices_are(std::max<std::int64_t>(1, *cpus_ / cpus_per_task_.value_or(1)), "processors that Slurm allotted");
  } else {
    devices_are(machine_.cores, "cores");
  }
}

void Finder::find_ranks() {
  const auto in_range = [&](const char* name, const std::optional<std::int64_t>& value) {
    if (!value || (*value >= 1 && *value <= kMost)) return true;
    wrong(fmt::format("{} {}: must be in 1 ... {}", name, *value, kMost), fmt::format("leave it out, or {} 1", name));
    return false;
  };
  const bool ranks_hold = in_range("-n", request_.ranks);
  const bool per_host_holds = in_range("--ppn", request_.per_host);
  if (!ranks_hold || !per_host_holds || facts_.hosts.empty()) return;
  const auto hosts = static_cast<std::int64_t>(facts_.hosts.size());
  facts_.per_host =
      request_.per_host.value_or(request_.ranks ? std::max<std::int64_t>(1, *request_.ranks / hosts) : facts_.devices);
  facts_.ranks = request_.ranks.value_or(hosts * facts_.per_host);
  const std::int64_t total = hosts * facts_.per_host;
  if (request_.per_host && facts_.ranks != total) {
    wrong(fmt::format("-n {} --ppn {}: {} hosts with {} ranks each are {}", facts_.ranks, facts_.per_host, hosts, facts_.per_host,
                      total),
          fmt::format("-n {}, or leave one of the two out", total));
  } else if (facts_.ranks != total) {
    wrong(fmt::format("-n {}: does not divide by the {} hosts", facts_.ranks, hosts),
          fmt::format("-n {} or -n {}, or other hosts by --hostfile FILE", total, total + hosts));
  }
  if (!request_.oversubscribe) check_room();
  facts_.cpus_per_rank = cpus_per_task_.value_or(std::max<std::int64_t>(1, cpus_.value_or(1) / facts_.per_host));
}

void Finder::check_room() {
  const auto fewer = [](std::int64_t ranks) {
    return fmt::format("--ppn {} or less; or, to start them all the same, --oversubscribe", ranks);
  };
  if (facts_.per_host > facts_.devices) {
    wrong(
        fmt::format("{} ranks a host are more than there is room for: {} ({})", facts_.per_host, facts_.devices, devices_source_),
        fewer(facts_.devices));
  }
  const bool here = std::ranges::any_of(facts_.hosts, [&](const std::string& host) { return is_named(machine_, host); });
  const std::int64_t most = machine_.memory.value_or(0) / rank_bytes;
  if (here && machine_.memory && facts_.per_host > most) {
    wrong(fmt::format("{} ranks a host take {} and more, and {} of memory are free here", facts_.per_host,
                      format_bytes(static_cast<std::uint64_t>(facts_.per_host * rank_bytes)),
                      format_bytes(static_cast<std::uint64_t>(*machine_.memory))),
          fewer(std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, facts_.devices))));
  }
}

}  // namespace

bool is_named(const Machine& machine, const std::string& host) {
  return host == machine.host || host == "localhost" || host == "127.0.0.1" || host == "::1" ||
         host == machine.host.substr(0, machine.host.find('.'));
}

Facts find_facts(const Machine& machine, const Request& request, std::vector<Problem>& problems) {
  return Finder(machine, request, problems).find();
}

}  // namespace lockstep::launch
