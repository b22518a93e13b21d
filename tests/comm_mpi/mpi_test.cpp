// Ranks as processes: this program starts itself under mpirun, where it runs the conformance suite of all transports or one of
// the cases of cases.h. Outside it has the tests of Mpi alone, which look at what became of the job.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.h"
#include "comm/errors.h"
#include "comm/mpi/library.h"
#include "comm/mpi/mpi_world.h"
#include "comm_mpi/cases.h"
#include "device/topology.h"
#include "io/file.h"
#include "support/mpi_job.h"
#include "support/ranks.h"
#include "support/temp_folder.h"

namespace lockstep::test {
namespace {

using comm::Communicator;

Communicator* the_world = nullptr;  // of this process, while a suite runs in it

JobOutcome run_case(int ranks, const std::string& name) {
  return run_job(ranks, std::filesystem::read_symlink("/proc/self/exe").string() + " --case " + name);
}

void expect_says(const JobOutcome& outcome, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in:\n" << outcome.output;
}

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed (Debian: openmpi-bin)";
  }
};

TEST_F(Mpi, Conformance) {
  const JobOutcome outcome = run_job(8, std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  expect_says(outcome, {"8Ranks", "[  PASSED  ]"});
}

// What ranks of several hosts do, on one: messages alone, and sums of hosts first.
TEST_F(Mpi, ConformanceWithMessages) {
  const JobOutcome outcome = run_job(5, std::filesystem::read_symlink("/proc/self/exe").string() + " --host-ranks=1");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  expect_says(outcome, {"5Ranks", "[  PASSED  ]"});
}

TEST_F(Mpi, ConformanceOfHosts) {
  for (const std::string each : {"2", "4"}) {
    const JobOutcome outcome = run_job(8, std::filesystem::read_symlink("/proc/self/exe").string() + " --host-ranks=" + each);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    expect_says(outcome, {"8Ranks", "[  PASSED  ]"});
  }
}

TEST_F(Mpi, FailuresOfHosts) {
  const JobOutcome user = run_case(4, "user_error --host-ranks=2");
  EXPECT_EQ(user.code, 2);
  expect_says(user, {"lockstep: rank 2 ended with an error: no room for the checkpoint\n  -> free some"});
  const JobOutcome killed = run_case(4, "killed --host-ranks=2");
  EXPECT_NE(killed.code, 0);
  EXPECT_NE(killed.code, too_long);
  const JobOutcome disagree = run_case(4, "disagree --host-ranks=2");
  EXPECT_EQ(disagree.code, 1);
  expect_says(disagree, {"ranks 0 and 1 entered different operations", "10 F32", "11 F32"});
  const JobOutcome absent = run_case(4, "absent --host-ranks=2");
  EXPECT_EQ(absent.code, 1);
  expect_says(absent,
              {"all_reduce (sum, 1,000 F32), operation ", " of 'world' did not end within comm.timeout = 2 s",
               "not entered by rank 1; what each rank was heard to enter last:\n  rank 0: all_reduce (sum, 1,000 F32), "});
}

TEST_F(Mpi, FailuresWithMessages) {
  const JobOutcome user = run_case(3, "user_error --host-ranks=1");
  EXPECT_EQ(user.code, 2);
  expect_says(user, {"lockstep: rank 2 ended with an error: no room for the checkpoint\n  -> free some"});
  const JobOutcome killed = run_case(3, "killed --host-ranks=1");
  EXPECT_NE(killed.code, 0);
  EXPECT_NE(killed.code, too_long);
  const JobOutcome disagree = run_case(2, "disagree --host-ranks=1");
  EXPECT_EQ(disagree.code, 1);
  expect_says(disagree, {"ranks 0 and 1 entered different operations", "10 F32", "11 F32"});
  const JobOutcome absent = run_case(2, "absent --host-ranks=1");
  EXPECT_EQ(absent.code, 1);
  expect_says(absent, {"all_reduce (sum, 1,000 F32), operation 1 of 'world'", "comm.timeout = 2 s", "not entered by rank 1",
                       "what each rank was heard to enter last:\n  rank 0: all_reduce (sum, 1,000 F32), operation 1, ",
                       "\n  rank 1: all_reduce (sum, 1,000 F32), operation 0, "});
}

TEST_F(Mpi, ARankThatThrowsEndsTheOthersWithItsFamily) {
  const JobOutcome user = run_case(3, "user_error");
  EXPECT_EQ(user.code, 2);
  expect_says(user, {"case: rank 2 ended with an error: no room for the checkpoint\n  -> free some"});
  const JobOutcome system = run_case(2, "system_error");
  EXPECT_EQ(system.code, 1);
  expect_says(system, {"case: rank 1 ended with an error: the disk is gone"});
}

// The reason and its family reach the user although it comes while an operation is under way.
TEST_F(Mpi, AnErrorWithOperationsUnderWayIsTold) {
  for (const char* how : {"pending", "pending --host-ranks=2", "pending --host-ranks=1"}) {
    const JobOutcome outcome = run_case(4, how);
    EXPECT_EQ(outcome.code, 2) << how;
    expect_says(outcome, {"rank 1 ended with an error: no room for the checkpoint\n  -> free some"});
  }
}

TEST_F(Mpi, ABugHasItsExitCode) {
  for (const char* how : {"bug", "bug --host-ranks=2", "bug --host-ranks=1"}) {
    const JobOutcome outcome = run_case(4, how);
    EXPECT_EQ(outcome.code, 70) << how << outcome.output;
    expect_says(outcome, {"a < b"});
  }
}

// mpirun may crash of ranks that end the job at the same time.
TEST_F(Mpi, AllRanksMayFailAtOnce) {
  for (const char* how : {"all_fail", "all_fail --host-ranks=2", "all_fail --host-ranks=1"}) {
    const JobOutcome outcome = run_case(4, how);
    EXPECT_EQ(outcome.code, 2) << how << outcome.output;
    expect_says(outcome, {"ended with an error: the same bad input\n  -> give good one"});
  }
}

TEST_F(Mpi, AMessageThatDoesNotComeNamesBothRanks) {
  for (const char* how : {"all_stuck", "all_stuck --host-ranks=1"}) {
    const JobOutcome outcome = run_case(3, how);
    EXPECT_EQ(outcome.code, 1) << how << outcome.output;
    expect_says(outcome, {"a message between ranks ", " of 'world' did not end within comm.timeout = 2 s"});
  }
}

// What waits as long as another rank computes still learns that it does not compute any more.
TEST_F(Mpi, AStoppedRankIsToldFromOneThatComputes) {
  const JobOutcome stopped = run_case(2, "stopped");
  EXPECT_EQ(stopped.code, 1) << stopped.output;
  expect_says(stopped, {"rank 1 has not stirred for comm.timeout = 2 s: process ", " is stopped"});
  const JobOutcome computing = run_case(2, "computing");
  EXPECT_EQ(computing.code, 0) << computing.output;
}

// Rank 1 sleeps before MPI brings the ranks together.
TEST_F(Mpi, ARankThatDoesNotStartEndsTheOthers) {
  const JobOutcome outcome = run_case(2, "late");
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  expect_says(outcome, {"lockstep: rank 0: the start of MPI did not end within comm.timeout = 2 s: another rank has not come"});
}

TEST_F(Mpi, AKilledRankEndsTheOthers) {
  const JobOutcome outcome = run_case(3, "killed");
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.code, too_long);
  expect_says(outcome, {"rank 1 is no more: process ", " was killed or crashed"});
}

TEST_F(Mpi, ARankThatDoesNotFollowIsEnded) {
  const JobOutcome outcome = run_case(2, "busy");
  EXPECT_EQ(outcome.code, 2);
  expect_says(outcome, {"lockstep: rank 1 ended with an error: bad input\n  -> give good one"});
}

TEST_F(Mpi, DisagreementAndExhaustionHaveReports) {
  const JobOutcome disagree = run_case(2, "disagree");
  EXPECT_EQ(disagree.code, 1);
  expect_says(disagree, {"ranks 0 and 1 entered different operations", "10 F32", "11 F32"});
  const JobOutcome memory = run_case(2, "no_memory");
  EXPECT_EQ(memory.code, 1);
  expect_says(memory, {"no shared memory: 1125899906842624 bytes for the ranks of this host could not be had"});
}

TEST_F(Mpi, ARankThatFailsLeavesALauncherThatHangs) {
  const JobOutcome outcome = run_case(2, "stopped_launcher --host-ranks=1");
  EXPECT_NE(outcome.code, 0);
  expect_says(outcome, {"rank 1 ended with an error: bad input", "rank 1 has left"});
}

// A launcher that binds ranks divides cores, not GPUs.
TEST_F(Mpi, BoundRanksKnowTheirPlaceOnTheHost) {
  if (neighbouring_cores().size() < 2) GTEST_SKIP() << "it takes two cores";
  for (const auto& [how, said] : {std::pair{"bound", "2 on its host"}, {"bound --host-ranks=1", "1 on its host"}}) {
    const JobOutcome outcome = run_case(2, how);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    expect_says(outcome, {said});
  }
}

TEST_F(Mpi, OneFileIsReadByAllRanks) {
  const TempFolder folder;
  const std::string path = (folder / "tokens").string();
  std::string content(1000, ' ');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i % 251);
  io::replace_file(path, content);
  setenv("LOCKSTEP_TEST_FILE", path.c_str(), 1);
  for (const char* how : {"", " --host-ranks=1"}) {
    const JobOutcome good = run_case(3, std::string("files") + how);
    EXPECT_EQ(good.code, 0) << good.output;
    const JobOutcome missing = run_case(2, std::string("no_file") + how);
    EXPECT_EQ(missing.code, 2);
    expect_says(missing, {"rank 1 ended with an error: cannot read /no/such/file: No such file", "-> check the path"});
    const JobOutcome cut = run_case(2, std::string("short_file") + how);
    EXPECT_EQ(cut.code, 2);
    expect_says(cut, {"rank 1 ended with an error: " + path + " ends at byte 1000, 50 bytes too soon"});
  }
}

// Rank 0 reports everything, the others what went wrong.
class FailuresAlone final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed()) std::fprintf(stderr, "rank %d: %s\n", the_world->rank(), result.message());
  }
};

int run_suite(Communicator& world) {
  the_world = &world;
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, "-Mpi*");
  if (world.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresAlone);
  }
  return RUN_ALL_TESTS();
}

int run_inside(const comm::MpiJob& job, const std::string& name, int host_ranks) {
  int code = 0;
  const bool impatient = cases_that_wait.count(name) != 0;
  std::optional<ScopedCores> bound;
  if (name == "bound") bound.emplace(share_of_cores(neighbouring_cores(), job.rank, job.ranks));
  if (name == "late" && job.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(100));
  try {
    comm::run_mpi(job, {.timeout = impatient ? 2.0 : 60.0, .host_ranks = host_ranks},
                  [&](Communicator& world, const comm::HostPlace& place) {
                    the_place = place;
                    if (name.empty()) {
                      code = run_suite(world);
                    } else {
                      cases.at(name)(world);
                    }
                  });
  } catch (const UserError& error) {
    std::fprintf(stderr, "case: %s\n", error.what());
    return 2;
  } catch (const BrokenRule& error) {
    std::fprintf(stderr, "case: %s\n", error.what());
    return 70;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "case: %s\n", error.what());
    return 1;
  }
  return code;
}

}  // namespace

void on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  if (ranks > the_world->size()) GTEST_SKIP() << "more ranks than this job has";
  const bool takes_part = the_world->rank() < ranks;
  const std::unique_ptr<Communicator> group = the_world->split(takes_part ? 0 : 1, 0);
  if (takes_part) body(*group);
}

}  // namespace lockstep::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string last = argc > 1 ? argv[argc - 1] : "", option = "--host-ranks=";
  const int host_ranks = last.starts_with(option) ? std::stoi(last.substr(option.size())) : 0;
  const std::string name = argc > 2 && std::string(argv[1]) == "--case" ? argv[2] : "";
  if (const auto job = lockstep::comm::find_mpi_job()) return lockstep::test::run_inside(*job, name, host_ranks);
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, "Mpi*");
  return RUN_ALL_TESTS();
}
