#include <gtest/gtest.h>

#include "app/launch/job.h"
#include "app/launch_machine.h"
#include "base/shell.h"

namespace lockstep::launch {
namespace {

const std::vector<std::string> kTrain{"train", "data.dir=my book", "--config=a.toml"};

Job job_of(const Recorded& recorded, const Request& request = {}) {
  std::vector<Problem> problems;
  const Machine machine = recorded.machine();
  const Facts facts = find_facts(machine, request, problems);
  Job job = make_job(facts, machine, "/opt/lockstep", kTrain, problems);
  for (const Problem& problem : problems) ADD_FAILURE() << problem.message;
  return job;
}

std::string command_of(const Recorded& recorded, const Request& request = {}) { return shell_text(job_of(recorded, request)); }

constexpr const char* kRest = "/opt/lockstep train 'data.dir=my book' --config=a.toml";

TEST(LaunchJob, Pbs) {
  EXPECT_EQ(command_of(polaris()),
            "mpiexec --verbose --envall -n 8 -ppn 4 --hostfile /var/spool/pbs/aux/2034.polaris-pbs --cpu-bind depth -d 16 " +
                std::string(kRest));
  EXPECT_EQ(command_of(polaris(), {.per_host = 1}),
            "mpiexec --verbose --envall -n 2 -ppn 1 --hostfile /var/spool/pbs/aux/2034.polaris-pbs --cpu-bind depth -d 64 " +
                std::string(kRest));
}

TEST(LaunchJob, Slurm) {
  EXPECT_EQ(command_of(perlmutter()),
            "srun -l -u --verbose --kill-on-bad-exit=1 -N2 -n8 -c32 --gpus-per-node=4 " + std::string(kRest));
  Recorded small = perlmutter();
  small.variables.erase("SLURM_GPUS_ON_NODE");
  small.variables["SLURM_JOB_CPUS_PER_NODE"] = "2(x2)";
  EXPECT_EQ(command_of(small), "srun -l -u --verbose --kill-on-bad-exit=1 -N2 -n4 " + std::string(kRest));
  small.files["one"] = "nid001241\n";
  EXPECT_EQ(command_of(small, {.hostfile = "one"}),
            "srun -l -u --verbose --kill-on-bad-exit=1 -N1 -n2 --nodelist=nid001241 " + std::string(kRest));
}

TEST(LaunchJob, SlurmIsAskedForPmix) {
  Recorded cluster = perlmutter();
  cluster.variables.erase("SLURM_GPUS_ON_NODE");
  cluster.variables["SLURM_JOB_CPUS_PER_NODE"] = "2(x2)";
  const std::string plain = "srun -l -u --verbose --kill-on-bad-exit=1 -N2 -n4 " + std::string(kRest);
  cluster.outputs[{"srun", "--mpi=list"}] = "MPI plugin types are...\n\tnone\n\tcray_shasta\n\tpmi2\n";
  EXPECT_EQ(shell_text(job_of(cluster)), plain);
  cluster.outputs[{"srun", "--mpi=list"}] += "\tpmix\n";
  EXPECT_EQ(shell_text(job_of(cluster)), "SLURM_MPI_TYPE=pmix " + plain);
  cluster.variables["SLURM_MPI_TYPE"] = "cray_shasta";
  EXPECT_EQ(shell_text(job_of(cluster)), plain);
}

TEST(LaunchJob, SlurmWithoutSrunIsRefused) {  // as in a container that has the job's variables
  Recorded container = perlmutter();
  container.programs.erase("srun");
  const Machine machine = container.machine();
  std::vector<Problem> problems;
  make_job(find_facts(machine, {}, problems), machine, "/opt/lockstep", kTrain, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].message, "Slurm is the scheduler here, and srun is not installed");
  EXPECT_NE(problems[0].remedy.find("LOCKSTEP_SCHEDULER=none"), std::string::npos);
}

TEST(LaunchJob, PbsWithOpenMpiTakesMpirun) {
  for (const char* version : {"mpiexec (OpenRTE) 4.1.4\n", "mpiexec (Open MPI) 5.0.3\n"}) {
    Recorded cluster = polaris();
    cluster.outputs[{"mpiexec", "--version"}] = version;
    EXPECT_TRUE(
        command_of(cluster, {.per_host = 2})
            .starts_with("mpirun -n 4 --bind-to none --host x3005c0s13b0n0.hsn:2,x3005c0s13b1n0.hsn:2 --map-by ppr:2:node "));
  }
  Recorded stuck = polaris();
  stuck.stuck.insert({"mpiexec", "--version"});
  const Machine machine = stuck.machine();
  std::vector<Problem> problems;
  make_job(find_facts(machine, {}, problems), machine, "/opt/lockstep", kTrain, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].message, "mpiexec did not end");
}

TEST(LaunchJob, OneHost) {
  EXPECT_EQ(command_of(Recorded{}), "mpirun -n 4 --bind-to none " + std::string(kRest));
  EXPECT_TRUE(job_of(Recorded{}).notes.empty());
  Recorded box;
  box.root = true;
  box.programs = {"mpiexec"};
  const Job job = job_of(box, {.ranks = 6, .oversubscribe = true});
  EXPECT_EQ(shell_text(job),
            "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpiexec -n 6 --bind-to none --oversubscribe " +
                std::string(kRest));
  ASSERT_EQ(job.notes.size(), 1U);
  EXPECT_EQ(job.notes[0], "6 ranks share 4 cores, as asked for");
}

TEST(LaunchJob, SeveralHosts) {
  Recorded box;
  box.files["hosts"] = "a\nb\n";
  EXPECT_EQ(command_of(box, {.ranks = 4, .hostfile = "hosts"}),
            "mpirun -n 4 --bind-to none --host a:2,b:2 --map-by ppr:2:node -x HOSTFILE -x NHOSTS -x NGPU_PER_HOST -x NGPUS "
            "-x DIST_LAUNCH " +
                std::string(kRest));
  Recorded drill = box;
  drill.variables["LOCKSTEP_DRILL"] = "{}";
  EXPECT_NE(command_of(drill, {.ranks = 4, .hostfile = "hosts"}).find(" -x LOCKSTEP_DRILL "), std::string::npos);
  box.files["elsewhere"] = "a\n";
  EXPECT_EQ(command_of(box, {.ranks = 2, .hostfile = "elsewhere"}),
            "mpirun -n 2 --bind-to none --host a:2 --map-by ppr:2:node -x HOSTFILE -x NHOSTS -x NGPU_PER_HOST -x NGPUS "
            "-x DIST_LAUNCH " +
                std::string(kRest));
  box.files["here"] = "localhost\n";
  EXPECT_EQ(command_of(box, {.ranks = 2, .hostfile = "here"}), "mpirun -n 2 --bind-to none " + std::string(kRest));
}

// The names are those of Open MPI 4.1's and of PRRTE 3's odls_base_frame.c.
TEST(LaunchJob, WhereItStartsAgainNobodyWaitsForRanksToDie) {
  EXPECT_EQ(command_of(Recorded{}, {.again = true}),
            "OMPI_MCA_odls_base_sigkill_timeout=0 PRTE_MCA_odls_base_sigkill_timeout=0 mpirun -n 4 --bind-to none " +
                std::string(kRest));
}

TEST(LaunchJob, HostsThatAreLeftOutAreNotTaken) {
  Recorded box;
  box.files["hosts"] = "a\nb\nc\n";
  const Request request{.per_host = 1, .hostfile = "hosts", .spares = 1, .left_out = {"a"}, .again = true};
  EXPECT_NE(command_of(box, request).find(" --host b:1,c:1 "), std::string::npos);
  const Job spared = job_of(box, {.per_host = 1, .hostfile = "hosts", .spares = 1, .again = true});
  EXPECT_EQ(spared.notes, std::vector<std::string>{"spare, for a host that does not answer before a retry: c"});
  Recorded pbs = polaris();
  EXPECT_NE(command_of(pbs, {.left_out = {"x3005c0s13b0n0.hsn"}}).find(" -n 4 -ppn 4 --hosts x3005c0s13b1n0.hsn "),
            std::string::npos);
  EXPECT_NE(command_of(perlmutter(), {.left_out = {"nid001240"}}).find(" -N1 -n4 "), std::string::npos);
  EXPECT_NE(command_of(perlmutter(), {.left_out = {"nid001240"}}).find(" --nodelist=nid001241 "), std::string::npos);
}

TEST(LaunchJob, WithoutMpiTheRanksAreThreads) {
  Recorded box;
  box.programs.clear();
  const Job job = job_of(box, {.ranks = 2});
  EXPECT_TRUE(job.launcher.empty());
  EXPECT_EQ(shell_text(job), "/opt/lockstep train --ranks 2 'data.dir=my book' --config=a.toml");
  ASSERT_EQ(job.notes.size(), 1U);
  EXPECT_NE(job.notes[0].find("threads of one process"), std::string::npos);
  EXPECT_EQ(command_of(box, {.ranks = 1}), kRest);

  box.files["hosts"] = "a\nb\n";
  std::vector<Problem> problems;
  const Machine machine = box.machine();
  const Facts facts = find_facts(machine, {.ranks = 2, .hostfile = "hosts"}, problems);
  make_job(facts, machine, "/opt/lockstep", kTrain, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].message, "neither mpirun nor mpiexec is installed, and only they reach a");
}

TEST(LaunchJob, CoresAreBoundAsAsked) {
  EXPECT_EQ(command_of(polaris(), {.cpu_bind = "numa"}),
            "mpiexec --verbose --envall -n 8 -ppn 4 --hostfile /var/spool/pbs/aux/2034.polaris-pbs --cpu-bind numa " +
                std::string(kRest));
  EXPECT_EQ(command_of(polaris(), {.cpu_bind = "depth"}), command_of(polaris()));
  EXPECT_EQ(command_of(perlmutter(), {.cpu_bind = "cores"}),
            "srun -l -u --verbose --kill-on-bad-exit=1 -N2 -n8 -c32 --gpus-per-node=4 --cpu-bind=cores " + std::string(kRest));
  EXPECT_EQ(command_of(Recorded{}, {.cpu_bind = "core"}), "mpirun -n 4 --bind-to core " + std::string(kRest));
  Recorded box;
  box.programs.clear();
  std::vector<Problem> problems;
  const Machine machine = box.machine();
  make_job(find_facts(machine, {.cpu_bind = "core"}, problems), machine, "/opt/lockstep", kTrain, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].message.rfind("--cpu-bind core: neither mpirun nor mpiexec is installed", 0), 0U);
}

TEST(LaunchJob, TheFirstHostsOfAJob) {
  const Job job = job_of(polaris(), {.hosts = 1});
  EXPECT_EQ(shell_text(job),
            "mpiexec --verbose --envall -n 4 -ppn 4 --hostfile /var/spool/pbs/aux/2034.polaris-pbs --cpu-bind depth -d 16 " +
                std::string(kRest));
  EXPECT_EQ(job.notes, std::vector<std::string>{"1 of the job's 2 hosts: the first"});
  EXPECT_EQ(
      command_of(perlmutter(), {.hosts = 1}),
      "srun -l -u --verbose --kill-on-bad-exit=1 -N1 -n4 -c32 --gpus-per-node=4 --nodelist=nid001240 " + std::string(kRest));
}

TEST(LaunchJob, RanksAreToldOfTheJob) {
  using Told = std::vector<std::pair<std::string, std::string>>;
  const Job job = job_of(polaris(), {.hosts = 1});
  EXPECT_EQ(job.told, (Told{{"HOSTFILE", "/var/spool/pbs/aux/2034.polaris-pbs"},
                            {"NHOSTS", "2"},
                            {"NGPU_PER_HOST", "4"},
                            {"NGPUS", "8"},
                            {"DIST_LAUNCH", shell_words(job.launcher)}}));
  Recorded box;
  box.programs.clear();
  EXPECT_TRUE(job_of(box).told.empty());
}

TEST(LaunchJob, TheSavedEnvironmentHasListedVariablesAlone) {
  Recorded pbs = polaris();
  pbs.variables.insert({{"HOME", "/home/ada"},
                        {"PBS_O_HOST", "it's"},
                        {"PBS_COOKIE", "opens doors"},
                        {"PBS_O_URL", "https://ada:pw@host/x"},
                        {"OPENAI_KEY", "opens doors"},
                        {"SLURM_JOB_ID", ""}});
  const Machine machine = pbs.machine();
  std::vector<Problem> problems;
  const Facts facts = find_facts(machine, {}, problems);
  const Job job = make_job(facts, machine, "/opt/lockstep", kTrain, problems);
  EXPECT_EQ(environment_file(facts, machine), "/home/ada/.pbsenv");
  const std::string text = environment_text(facts, machine, job);
  EXPECT_NE(text.find("export PBS_JOBID=2034.polaris-pbs\n"), std::string::npos) << text;
  EXPECT_NE(text.find("export PBS_O_HOST='it'\\''s'\n"), std::string::npos);
  EXPECT_NE(text.find("export NGPUS=8\n"), std::string::npos);
  for (const char* left_out : {"COOKIE", "OPENAI_KEY", "HOME", "pw", "SLURM"})
    EXPECT_EQ(text.find(left_out), std::string::npos) << text;
  EXPECT_EQ(environment_file(find_facts(Recorded{}.machine(), {}, problems), machine), "");
  pbs.variables.erase("HOME");
  EXPECT_EQ(environment_file(facts, pbs.machine()), "");
}

}  // namespace
}  // namespace lockstep::launch
