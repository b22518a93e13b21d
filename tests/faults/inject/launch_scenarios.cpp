// Launching a job: the environment that is kept for other shells is the last job's or this one's, whole.

#include "faults/inject/scenario.h"
#include "io/file.h"

namespace lockstep::faults {
namespace {

constexpr const char* kept = ".pbsenv";

/// A job of PBS with one host, whose mpiexec starts nothing.
Words launch_job(const std::string& number) {
  return {"HOME=.", "PATH=../programs:/usr/bin:/bin", "PBS_JOBID=" + number, "PBS_NODEFILE=hosts", "launch", "--ppn", "1", "--",
          "train"};
}

void set_up(Site& site) {
  const Path programs = site.folder().parent_path() / "programs";
  io::make_folders(programs);
  io::replace_file(programs / "mpiexec", "#!/bin/sh\nexit 0\n");
  std::filesystem::permissions(programs / "mpiexec", std::filesystem::perms::owner_all);
  io::replace_file(site.folder() / "hosts", "localhost\n");
  must_run(site, launch_job("1"));
}

void check(Aftermath& after) {
  const Tree left = read_tree(after.site.folder());
  const auto is = left.find(kept), said = left.find("text.out");
  const bool is_new = is != left.end() && is->second == after.after.at(kept);
  after.demand(is_new || (is != left.end() && is->second == after.before.at(kept)), "neither the last job's nor this one's");
  const bool tells = said != left.end() && said->second.find("JOBENV_FILE=None: ") != std::string::npos;
  after.demand(!after.succeeded || is_new || tells, "success without the job's environment");
  after.demand_success(launch_job("2"), "text.out");
  after.demand_same(read_tree(after.site.folder()), after.after, "in the end");
}

}  // namespace

std::vector<Scenario> launch_scenarios() {
  return {{.name = "launch", .set_up = set_up, .command = launch_job("2"), .output = "text.out", .check = check}};
}

}  // namespace lockstep::faults
