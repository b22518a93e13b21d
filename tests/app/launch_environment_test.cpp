#include <gtest/gtest.h>

#include "app/launch/environment.h"
#include "app/launch/known_machines.h"
#include "app/launch_machine.h"

namespace lockstep::launch {
namespace {

using Hosts = std::vector<std::string>;

Facts facts_of(const Recorded& recorded, const Request& request = {}) {
  std::vector<Problem> problems;
  Facts facts = find_facts(recorded.machine(), request, problems);
  for (const Problem& problem : problems) ADD_FAILURE() << problem.message;
  return facts;
}

/// The messages and remedies of all problems.
std::string problems_of(const Recorded& recorded, const Request& request = {}) {
  std::vector<Problem> problems;
  find_facts(recorded.machine(), request, problems);
  return problems.empty() ? "" : UserError(problems).what();
}

Request asking(std::optional<std::int64_t> ranks, std::optional<std::int64_t> per_host = {}, std::string hostfile = "") {
  return {ranks, per_host, std::move(hostfile)};
}

TEST(LaunchEnvironment, APlainHostHasItsCores) {
  const Facts facts = facts_of(Recorded{});
  EXPECT_EQ(facts.scheduler, Scheduler::none);
  EXPECT_EQ(facts.hosts, Hosts{"box"});
  EXPECT_EQ(facts.hostfile, "");
  EXPECT_EQ(facts.devices, 4);
  EXPECT_EQ(facts.ranks, 4);
  EXPECT_EQ(facts_of(Recorded{}, asking(3)).ranks, 3);
  EXPECT_EQ(facts_of(Recorded{}, asking({}, 2)).ranks, 2);
  EXPECT_EQ(facts_of(Recorded{}, {.ranks = 9, .oversubscribe = true}).per_host, 9);
}

TEST(LaunchEnvironment, GpusAndNgpuPerHostComeBeforeCores) {
  Recorded box;
  box.outputs[kNvidia] = "No devices found.\n";
  EXPECT_EQ(facts_of(box).devices, 4);
  box.cores = 32;
  box.outputs[kNvidia] = kFourGpus;
  EXPECT_EQ(facts_of(box).devices, 4);
  box.variables["NGPU_PER_HOST"] = "2";
  EXPECT_EQ(facts_of(box).devices, 2);
  box.stuck = {kNvidia};  // and need not be asked then
  EXPECT_EQ(facts_of(box).devices, 2);
}

TEST(LaunchEnvironment, PbsNamesHostsInAFile) {
  const Facts facts = facts_of(polaris());
  EXPECT_EQ(facts.scheduler, Scheduler::pbs);
  EXPECT_EQ(facts.hosts, (Hosts{"x3005c0s13b0n0.hsn", "x3005c0s13b1n0.hsn"}));
  EXPECT_EQ(facts.ranks, 8);
  EXPECT_EQ(facts.per_host, 4);
  EXPECT_EQ(facts.cpus_per_rank, 16);
  Recorded without_variable = polaris();
  without_variable.variables.erase("PBS_NODEFILE");
  EXPECT_EQ(facts_of(without_variable).hostfile, "/var/spool/pbs/aux/2034.polaris-pbs");
}

TEST(LaunchEnvironment, PbsMayRepeatAHostForEverySlot) {
  Recorded pbs = polaris();
  pbs.outputs.clear();
  pbs.files.begin()->second = "a\na\nb\nb\nb\n";
  const Facts facts = facts_of(pbs);
  EXPECT_EQ(facts.hosts, (Hosts{"a", "b"}));
  EXPECT_EQ(facts.devices, 2) << "the least of what hosts have";
  EXPECT_EQ(facts.ranks, 4);
}

TEST(LaunchEnvironment, SlurmNamesHostsInAList) {
  const Facts facts = facts_of(perlmutter());
  EXPECT_EQ(facts.scheduler, Scheduler::slurm);
  EXPECT_EQ(facts.hosts, (Hosts{"nid001240", "nid001241"}));
  EXPECT_EQ(facts.ranks, 8);
  EXPECT_EQ(facts.cpus_per_rank, 32);
  Recorded with_scontrol = perlmutter();
  with_scontrol.outputs[{"scontrol", "show", "hostnames", "nid[001240-001241]"}] = "left\nright\n";
  EXPECT_EQ(facts_of(with_scontrol).hosts, (Hosts{"left", "right"}));
}

TEST(LaunchEnvironment, SlurmWithoutGpusCountsProcessors) {
  Recorded slurm = perlmutter();
  slurm.variables.erase("SLURM_GPUS_ON_NODE");
  slurm.outputs[kNvidia] = kFourGpus;  // there, but not this job's
  slurm.variables["SLURM_JOB_CPUS_PER_NODE"] = "16(x2),8";
  EXPECT_EQ(facts_of(slurm).devices, 8);
  EXPECT_EQ(facts_of(slurm).cpus_per_rank, 1);
  slurm.variables["SLURM_CPUS_PER_TASK"] = "4";
  EXPECT_EQ(facts_of(slurm).devices, 2);
  EXPECT_EQ(facts_of(slurm).cpus_per_rank, 4);
  slurm.variables["SLURM_NTASKS_PER_NODE"] = "1";
  EXPECT_EQ(facts_of(slurm).ranks, 2);
}

TEST(LaunchEnvironment, ACountOfZeroIsNone) {
  Recorded slurm = perlmutter();
  slurm.variables["SLURM_JOB_CPUS_PER_NODE"] = "16(x2),8";
  for (const std::string none : {"0", "0(x2)", "4,0"}) {
    slurm.variables["SLURM_GPUS_ON_NODE"] = none;
    EXPECT_EQ(facts_of(slurm).gpus, 0) << none;
    EXPECT_EQ(facts_of(slurm).devices, 8) << none;
  }
  slurm.variables["SLURM_GPUS_ON_NODE"] = "-1";
  EXPECT_NE(problems_of(slurm).find("SLURM_GPUS_ON_NODE = '-1' is no number in 0 ... 1000000"), std::string::npos);
  Recorded box;  // a script that counts GPUs
  box.variables["NGPU_PER_HOST"] = "0";
  EXPECT_EQ(facts_of(box).devices, 4);
}

TEST(LaunchEnvironment, NodeLists) {
  EXPECT_EQ(expand_node_list("login1"), Hosts{"login1"});
  EXPECT_EQ(expand_node_list("nid[001-003,007]"), (Hosts{"nid001", "nid002", "nid003", "nid007"}));
  EXPECT_EQ(expand_node_list("a,b[9-11]-ib,c"), (Hosts{"a", "b9-ib", "b10-ib", "b11-ib", "c"}));
  EXPECT_EQ(expand_node_list("r[0-1]n[1-2]"), (Hosts{"r0n1", "r0n2", "r1n1", "r1n2"}));
  // Brackets multiply: what no machine has is refused before memory is taken for it.
  EXPECT_EQ(expand_node_list("n[0-99999]").size(), 100000U);
  EXPECT_EQ(expand_node_list("n[0-9]", 10).size(), 10U);
  EXPECT_EQ(expand_node_list("n[9223372036854775806-9223372036854775807]").size(), 2U);
  EXPECT_TRUE(expand_node_list("n[0-9],m", 10).empty());
  for (const std::string list : {"n[0-100000]", "r[0-999999][0-999999][0-999999]", "r[0-999]n[0-999]", "n[0-99999],m"})
    EXPECT_TRUE(expand_node_list(list).empty()) << list;
  std::string brackets = "n";
  for (int i = 0; i < 20000; ++i) brackets += "[1]";
  EXPECT_TRUE(expand_node_list(brackets).empty());
  for (const char* wrong : {"", "a,", "n[1-2", "n]1[", "n[2-1]", "n[a-b]", "n[]", "n[1-]", "n[-1]", "n[0-9999999]"}) {
    EXPECT_EQ(expand_node_list(wrong), Hosts{}) << wrong;
  }
}

TEST(LaunchEnvironment, HostfilesOfEveryKind) {
  Recorded box;
  box.files["hosts"] = "# the rack\na slots=3\nb:2 # the small one\n\n";
  EXPECT_EQ(facts_of(box, asking({}, {}, "hosts")).hosts, (Hosts{"a", "b"}));
  EXPECT_EQ(facts_of(box, asking({}, {}, "hosts")).devices, 2);
  box.files["plain"] = "a\nb\nc";
  box.variables["HOSTFILE"] = "plain";
  EXPECT_EQ(facts_of(box).hosts.size(), 3U);
  EXPECT_EQ(facts_of(box).ranks, 12);
  EXPECT_EQ(facts_of(box, asking({}, {}, "hosts")).hostfile, "hosts") << "the option wins";
}

TEST(LaunchEnvironment, AByteOrderMarkIsNoPartOfAHost) {
  Recorded box;
  box.files = {{"hosts", "\xEF\xBB\xBFn1\nn2\n"}};
  EXPECT_EQ(facts_of(box, asking({}, {}, "hosts")).hosts, (std::vector<std::string>{"n1", "n2"}));
}

TEST(LaunchEnvironment, TheSchedulerCanBeNamed) {
  Recorded pbs = polaris();
  pbs.variables["LOCKSTEP_SCHEDULER"] = "none";
  EXPECT_EQ(facts_of(pbs).scheduler, Scheduler::none);
  EXPECT_EQ(facts_of(pbs).hosts, Hosts{"x3005c0s13b0n0"});
  Recorded box;
  box.variables["LOCKSTEP_SCHEDULER"] = "pbs";
  EXPECT_NE(problems_of(box).find("neither PBS_NODEFILE nor PBS_JOBID is set"), std::string::npos);
  box.variables["LOCKSTEP_SCHEDULER"] = "slurm";
  EXPECT_NE(problems_of(box).find("SLURM_JOB_NODELIST is not set"), std::string::npos);
  box.variables["LOCKSTEP_SCHEDULER"] = "lsf";
  EXPECT_NE(problems_of(box).find("LOCKSTEP_SCHEDULER = 'lsf'"), std::string::npos);
}

TEST(LaunchEnvironment, KnownMachinesAreToldByTheirHosts) {
  using Name = std::pair<const char*, const char*>;
  for (const auto& [host, machine] :
       {Name{"x4102c0s0b0n0", "Aurora"}, Name{"aurora-uan-0009", "Aurora"}, Name{"x1921c0s0b0n0", "SunSpot"},
        Name{"uan-0001", "SunSpot"}, Name{"x3005c0s13b0n0", "Polaris"}, Name{"polaris-login-01", "Polaris"},
        Name{"thetagpu04", "ThetaGPU"}, Name{"nid001240", "Perlmutter"}, Name{"login07", "Perlmutter"},
        Name{"frontier00123", "Frontier"}, Name{"sophia-gpu-01", "Sophia"}, Name{"x3", "x3"}, Name{"nidhogg", "nidhogg"},
        Name{"box", "box"}})
    EXPECT_EQ(machine_of(host, ""), machine) << host;
  EXPECT_EQ(machine_of("x3005c0s13b0n0", "sirius-login-01"), "Sirius");
  EXPECT_EQ(facts_of(polaris()).machine, "Polaris");
  EXPECT_EQ(facts_of(Recorded{}).machine, "box");
}

TEST(LaunchEnvironment, AKnownMachineHasItsSchedulerAndDevices) {
  Recorded outside;
  outside.host = "x3005c0s13b0n0";
  EXPECT_NE(
      problems_of(outside).find("PBS is the scheduler of Polaris, but neither PBS_NODEFILE nor PBS_JOBID is set\n  -> launch "
                                "inside of a job"),
      std::string::npos);
  outside.host = "login07";
  EXPECT_NE(problems_of(outside).find("Slurm is the scheduler of Perlmutter, but SLURM_JOB_NODELIST is not set"),
            std::string::npos);
  outside.variables["LOCKSTEP_SCHEDULER"] = "none";
  EXPECT_EQ(facts_of(outside).ranks, 4);
  Recorded aurora = polaris();
  aurora.host = "x4102c0s0b0n0";
  aurora.outputs.clear();
  EXPECT_EQ(facts_of(aurora).devices, 12);
  aurora.variables["NGPU_PER_HOST"] = "6";
  EXPECT_EQ(facts_of(aurora).devices, 6);
}

TEST(LaunchEnvironment, SomeHostsOfAJob) {
  const Facts facts = facts_of(polaris(), {.hosts = 1});
  EXPECT_EQ(facts.hosts, Hosts{"x3005c0s13b0n0.hsn"});
  EXPECT_EQ(facts.job_hosts, 2);
  EXPECT_EQ(facts.ranks, 4);
  EXPECT_EQ(facts.job_devices(), 8);
  EXPECT_EQ(problems_of(polaris(), {.hosts = 3}), "--nhosts 3: the job has 2 hosts\n  -> --nhosts 2, or leave it out");
  EXPECT_EQ(problems_of(polaris(), {.spares = 2}),
            "--spares 2: the job has 2 hosts, and one at least must get ranks\n  -> --spares 1 or less");
  EXPECT_EQ(problems_of(Recorded{}, {.spares = 1}),
            "--spares 1: the job has 1 host, and one at least must get ranks\n  -> leave it out, or name more hosts by "
            "--hostfile FILE");
  EXPECT_EQ(problems_of(polaris(), {.hosts = 1, .spares = 1}),
            "--nhosts 1 --spares 1: each says how many hosts get ranks\n  -> leave one of the two out: hosts behind the first "
            "--nhosts are spare too");
  EXPECT_EQ(problems_of(Recorded{}, {.hosts = 0}), "--nhosts 0: the job has 1 host\n  -> --nhosts 1, or leave it out");
}

TEST(LaunchEnvironment, RefusesRanksThatDoNotFit) {
  EXPECT_EQ(problems_of(polaris(), asking(5)),
            "-n 5: does not divide by the 2 hosts\n  -> -n 4 or -n 6, or other hosts by --hostfile FILE");
  EXPECT_EQ(problems_of(polaris(), asking(1)),
            "-n 1: does not divide by the 2 hosts\n  -> -n 2 or -n 4, or other hosts by --hostfile FILE");
  EXPECT_EQ(problems_of(polaris(), asking(6, 2)),
            "-n 6 --ppn 2: 2 hosts with 2 ranks each are 4\n  -> -n 4, or leave one of the two out");
  EXPECT_NE(problems_of(polaris(), asking(16)).find("8 ranks a host are more than there is room for: 4 (GPUs"),
            std::string::npos);
  EXPECT_NE(problems_of(perlmutter(), asking({}, 5)).find("4 (SLURM_GPUS_ON_NODE)\n  -> --ppn 4 or less"), std::string::npos);
  EXPECT_EQ(problems_of(Recorded{}, asking(0, -1)),
            "-n 0: must be in 1 ... 1000000\n  -> leave it out, or -n 1\n--ppn -1: must be in 1 ... 1000000\n  -> leave it out, "
            "or --ppn 1");
  EXPECT_EQ(
      problems_of(Recorded{}, asking(99999)),
      "99999 ranks a host are more than there is room for: 4 (cores)\n  -> --ppn 4 or less; or, to start them all the same, "
      "--oversubscribe");
  EXPECT_EQ(facts_of(polaris(), {.per_host = 9, .oversubscribe = true}).ranks, 18);
  Recorded more = polaris();
  more.variables["NGPU_PER_HOST"] = "8";
  EXPECT_EQ(facts_of(more, asking(16)).per_host, 8);
}

TEST(LaunchEnvironment, RefusesRanksThatFindNoMemory) {
  Recorded box;
  box.files["slots"] = "box:1000\n";
  box.files["others"] = "a:1000\n";
  box.files["loop"] = "127.0.0.1 slots=1000\n";
  box.memory = 10 * rank_bytes;
  EXPECT_EQ(facts_of(box, asking(4)).ranks, 4);
  EXPECT_EQ(facts_of(box, asking(10, {}, "slots")).ranks, 10);
  EXPECT_EQ(problems_of(box, asking(11, {}, "slots")),
            "11 ranks a host take 352.00 MiB and more, and 320.00 MiB of memory are free here\n  -> --ppn 10 or less; or, to "
            "start them "
            "all the same, --oversubscribe");
  EXPECT_NE(problems_of(box, asking(11, {}, "loop")), "");
  EXPECT_EQ(facts_of(box, asking(11, {}, "others")).ranks, 11) << "of other hosts nothing is known";
  Request insisting = asking(11, {}, "slots");
  insisting.oversubscribe = true;
  EXPECT_EQ(facts_of(box, insisting).ranks, 11);
}

TEST(LaunchEnvironment, RefusesHostfilesThatDoNotServe) {
  Recorded box;
  EXPECT_NE(problems_of(box, asking(2, {}, "none")).find("--hostfile none: it is missing"), std::string::npos);
  box.files["empty"] = "\n# nothing\n";
  EXPECT_NE(problems_of(box, asking(2, {}, "empty")).find("--hostfile empty: it names no host"), std::string::npos);
  box.files["odd"] = "a slots=many\nb:0\n:3\n";
  const std::string odd = problems_of(box, asking({}, {}, "odd"));
  EXPECT_NE(odd.find("'a slots=many'"), std::string::npos);
  EXPECT_NE(odd.find("'b:0'"), std::string::npos);
  EXPECT_NE(odd.find("':3'"), std::string::npos);
  box.files["strangers"] = "a\nb\nc\n";
  box.unknown_hosts = {"a", "c"};
  box.variables["HOSTFILE"] = "strangers";
  EXPECT_NE(problems_of(box).find("HOSTFILE strangers: there is no address of the hosts a, c"), std::string::npos);
}

TEST(LaunchEnvironment, RefusesVariablesThatMakeNoSense) {
  Recorded slurm = perlmutter();
  slurm.variables["NGPU_PER_HOST"] = "four";
  slurm.variables["SLURM_JOB_NODELIST"] = "nid[1-";
  const std::string both = problems_of(slurm);
  EXPECT_NE(both.find("NGPU_PER_HOST = 'four' is no number in 0 ... 1000000"), std::string::npos);
  EXPECT_NE(both.find("SLURM_JOB_NODELIST = 'nid[1-' is no list of hosts"), std::string::npos);
  Recorded pbs = polaris();
  pbs.files.clear();
  EXPECT_NE(problems_of(pbs).find("PBS_NODEFILE /var/spool/pbs/aux/2034.polaris-pbs: it is missing"), std::string::npos);
}

TEST(LaunchEnvironment, ACommandThatDoesNotEndIsAProblem) {
  Recorded box;
  box.stuck = {kNvidia};
  EXPECT_EQ(problems_of(box),
            "nvidia-smi did not end\n  -> mend the driver, or say how many ranks a host has room for: NGPU_PER_HOST=N in the "
            "environment");
  Recorded slurm = perlmutter();
  slurm.stuck = {{"scontrol", "show", "hostnames", "nid[001240-001241]"}};
  EXPECT_EQ(problems_of(slurm), "scontrol did not end\n  -> name the hosts: --hostfile FILE");
}

TEST(LaunchEnvironment, ThisMachine) {
  const Machine machine = this_machine();
  EXPECT_EQ(machine.variables.count("PATH"), 1U);
  EXPECT_FALSE(machine.host.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_GE(machine.cpus, machine.cores);
  EXPECT_GT(machine.memory, rank_bytes);
  EXPECT_TRUE(machine.resolves("localhost"));
  EXPECT_FALSE(machine.resolves("no such host"));
  EXPECT_TRUE(machine.installed("sh"));
  EXPECT_FALSE(machine.installed("no-such-program"));
  EXPECT_EQ(machine.output_of({"printf", "%s", "it's"}), "it's");
  EXPECT_FALSE(machine.output_of({"false"}));
  EXPECT_FALSE(machine.read_file("/no/such/file"));
  EXPECT_TRUE(machine.read_file("/proc/self/stat"));
}

}  // namespace
}  // namespace lockstep::launch
