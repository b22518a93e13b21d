// Memory that processes share, and what started them; two ranks in one process find each other as two processes do.

#include "comm/mpi/process_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "base/error.h"
#include "comm/mpi/mpi_job.h"
#include "comm/mpi/mpi_world.h"

namespace lockstep::test {
namespace {

using comm::Directory;
using comm::ProcessMemory;

struct Pair {
  std::vector<Directory> directories = std::vector<Directory>(2);
  ProcessMemory a{directories, 0}, b{directories, 1};
};

TEST(ProcessMemory, TheOtherRankSeesTheSameBytes) {
  Pair pair;
  const Memory memory = pair.a.window().allocate(100'000);
  memory.data()[77'777] = std::byte{42};
  const std::uint64_t token = pair.a.token(memory.data() + 77'777);
  EXPECT_NE(token, 0U);
  EXPECT_EQ(pair.a.find(0, token), memory.data() + 77'777);
  std::byte* seen = pair.b.find(0, token);
  EXPECT_NE(seen, memory.data() + 77'777);
  EXPECT_EQ(*seen, std::byte{42});
  seen[1] = std::byte{43};
  EXPECT_EQ(memory.data()[77'778], std::byte{43});
}

TEST(ProcessMemory, OtherMemoryHasNoToken) {
  Pair pair;
  const Memory memory = pair.a.window().allocate(4096);
  const auto own = std::make_unique<std::byte[]>(100);
  EXPECT_EQ(pair.a.token(own.get()), 0U);
  EXPECT_EQ(pair.a.token(memory.data() + 4096), 0U);
  EXPECT_EQ(pair.b.token(memory.data()), 0U);
}

TEST(ProcessMemory, WhatIsReleasedHasNoTokenAndNoBytes) {
  Pair pair;
  std::uint64_t token = 0;
  std::byte* seen = nullptr;
  {
    const Memory memory = pair.a.window().allocate(4096);
    memory.data()[0] = std::byte{1};
    token = pair.a.token(memory.data());
    seen = pair.b.find(0, token);
  }
  EXPECT_EQ(*seen, std::byte{0});
  EXPECT_THROW(pair.a.find(0, token), BrokenRule);
}

TEST(ProcessMemory, SmallPiecesLieBesideEachOther) {
  Pair pair;
  std::byte* first = pair.a.allocate(100);
  std::byte* second = pair.a.allocate(100);
  EXPECT_EQ(second - first, 128);
  EXPECT_NE(pair.a.allocate(std::size_t{3} << 20), nullptr);
}

TEST(ProcessMemory, ExhaustionIsASystemError) {
  Pair pair;
  EXPECT_THROW(pair.a.window().allocate(std::size_t{1} << 50), SystemError);
  EXPECT_THROW(pair.a.window().allocate(~std::size_t{0}), SystemError);
  std::vector<Memory> many;
  EXPECT_THROW(for (std::size_t i = 0; i < Directory::capacity; ++i) pair.a.window().allocate(1), SystemError);
}

TEST(Segment, OfAProcessThatIsNotThere) { EXPECT_THROW(comm::Segment::open(getpid(), 987'654, 4096), SystemError); }

TEST(Segment, AProcessThatHasEndedIsNotAlive) {
  EXPECT_TRUE(comm::is_alive(getpid()));
  const int child = fork();
  if (child == 0) _exit(0);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // it stays a zombie: ended and not reaped
  EXPECT_FALSE(comm::is_alive(child));
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(comm::is_alive(child));
}

std::optional<comm::MpiJob> job_of(const std::map<std::string, std::string>& variables) {
  return comm::find_mpi_job([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(MpiJob, IsFoundInTheEnvironment) {
  const auto open_mpi = job_of({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_PROCID", "0"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->rank, 3);
  EXPECT_EQ(open_mpi->ranks, 4);
  EXPECT_EQ(open_mpi->launcher, "mpiexec");
  const auto step = job_of({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  ASSERT_TRUE(step);
  EXPECT_EQ(step->launcher, "srun");
  EXPECT_TRUE(open_mpi->connected);
  EXPECT_FALSE(step->connected);
  EXPECT_TRUE(job_of({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "1"}})->connected);
  EXPECT_TRUE(job_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
}

TEST(MpiJob, ProcessesOfTorchrunDoNotTrainEachAlone) {
  std::map<std::string, std::string> process{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  EXPECT_FALSE(job_of(process)) << "others set these two";
  process["TORCHELASTIC_RUN_ID"] = "none";
  const auto job = job_of(process);
  ASSERT_TRUE(job);
  EXPECT_FALSE(job->connected);
  try {
    comm::run_mpi(*job, {}, [](comm::Communicator&, const comm::HostPlace&) { FAIL() << "ran"; });
    FAIL() << "started";
  } catch (const UserError& error) {
    EXPECT_EQ(error.problems().front().message, "torchrun started 2 processes without telling them how to find each other");
    EXPECT_NE(error.problems().front().remedy.find("lockstep launch -n N"), std::string::npos);
  }
  process["WORLD_SIZE"] = "1";
  process["RANK"] = "0";
  EXPECT_FALSE(job_of(process));
}

TEST(MpiJob, TellsWhoseMpiItIs) {
  std::map<std::string, std::string> step{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_RANK", "1"}};
  EXPECT_EQ(job_of(step)->mpi, "mpich");
  step["PMIX_RANK"] = "1";
  EXPECT_EQ(job_of(step)->mpi, "openmpi");
  EXPECT_EQ(job_of({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_RANK", "0"}})->mpi, "openmpi");
  EXPECT_EQ(job_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})->mpi, "mpich");
  step["LOCKSTEP_MPI"] = "mpich";
  EXPECT_EQ(job_of(step)->mpi, "mpich");
}

TEST(MpiJob, ProcessesThatCannotFindEachOtherAreRefused) {
  try {
    comm::run_mpi({.rank = 0, .ranks = 4, .launcher = "srun", .connected = false}, {}, {});
    FAIL() << "they were not refused";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("srun started 4 processes without telling them how to find each other"), std::string::npos) << text;
    EXPECT_NE(text.find("srun --mpi=pmix"), std::string::npos) << text;
  }
}

TEST(MpiJob, IsNotFoundElsewhere) {
  EXPECT_FALSE(job_of({}));
  EXPECT_FALSE(job_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));  // a batch script is no step
  EXPECT_FALSE(job_of({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_FALSE(job_of({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "2"}}));
  EXPECT_FALSE(job_of({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}}));
}

}  // namespace
}  // namespace lockstep::test
