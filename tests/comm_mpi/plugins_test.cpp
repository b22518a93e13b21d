// The plugins for Open MPI and for MPICH: each is opened where its mpirun started the ranks; without it they say what is missing.

#include <gtest/gtest.h>

#include <filesystem>

#include "io/file.h"
#include "support/mpi_job.h"
#include "support/temp_folder.h"

namespace lockstep::test {
namespace {

std::string program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

void expect_says(const JobOutcome& outcome, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in:\n" << outcome.output;
}

TEST(MpiPlugins, ConformanceUnderMpich) {
  const bool built = std::filesystem::exists(std::filesystem::path(program()).replace_filename("lockstep-mpich.so"));
  if (!built || !has_mpirun(mpich)) GTEST_SKIP() << "MPICH is not installed (Debian: mpich libmpich-dev)";
  for (const char* hosts : {"", " --host-ranks=2"}) {
    const JobOutcome outcome = run_job(4, program() + hosts, mpich);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    expect_says(outcome, {"4Ranks", "[  PASSED  ]"});
  }
  const JobOutcome user = run_job(3, program() + " --case user_error", mpich);
  EXPECT_EQ(user.code, 2);
  expect_says(user, {"case: rank 2 ended with an error: no room for the checkpoint\n  -> free some"});
}

TEST(MpiPlugins, WithoutItsPluginTheJobIsRefused) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed (Debian: openmpi-bin)";
  const auto outcome_with = [](const std::string& variable) {
    return run_job(2, "env " + variable + " " + program() + " --case late");
  };
  const JobOutcome missing = outcome_with("LOCKSTEP_PLUGINS=/no/such/folder");
  EXPECT_EQ(missing.code, 2) << missing.output;
  expect_says(missing,
              {"mpiexec started 2 ranks by Open MPI: there is no lockstep-openmpi.so in /no/such/folder\n  -> build again with "
               "Open MPI (Debian: libopenmpi-dev), or name the plugin's folder in LOCKSTEP_PLUGINS; ",
               "--ranks 2 without mpiexec starts threads"});
  const JobOutcome other = outcome_with("LOCKSTEP_MPI=lam");
  EXPECT_EQ(other.code, 2) << other.output;
  expect_says(other, {"LOCKSTEP_MPI=lam: there is no plugin of this name\n  -> LOCKSTEP_MPI=openmpi or mpich"});
  const TempFolder folder;
  io::replace_file((folder / "lockstep-openmpi.so").string(), "no shared object");
  const JobOutcome unloadable = outcome_with("LOCKSTEP_PLUGINS=" + folder.path().string());
  EXPECT_EQ(unloadable.code, 2) << unloadable.output;
  expect_says(unloadable, {"lockstep-openmpi.so does not load: ", "\n  -> install Open MPI (Debian: openmpi-bin); "});
}

}  // namespace
}  // namespace lockstep::test
