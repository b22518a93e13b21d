// Random faults of ranks that mpirun started: one is stopped for a while, stopped for good or killed, at a random moment. The run
// ends with the bits of an undisturbed one, or in time with an error that names the rank. From what it has stored by then, the
// same command goes on to the same end.
//
// LOCKSTEP_SCENARIOS=200 makes so many scenarios (2 unless said). LOCKSTEP_SCENARIO_SEED=N begins with another seed. A scenario
// follows from its seed alone.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <sstream>
#include <thread>

#include "app/mpi_command.h"
#include "base/shell.h"
#include "base/timer.h"
#include "support/patience.h"

namespace lockstep::app {
namespace {

constexpr double timeout = 4;  // comm.timeout, seconds
constexpr double slack = 30;   // for a machine that does other things too

int number_set(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

/// What is read of it until it ends, or its process does.
std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The process of a rank of the run in `folder`; 0: there is none.
pid_t process_of(const std::string& folder, int rank) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    if (content_of(entry.path() / "cmdline").find("log.dir=" + folder) == std::string::npos) continue;
    const std::string variable = fmt::format("OMPI_COMM_WORLD_RANK={}", rank) + '\0';
    if (content_of(entry.path() / "environ").find(variable) != std::string::npos) return std::stoi(entry.path().filename());
  }
  return 0;
}

enum class Fault { pause, stop, kill };

struct Scenario {
  explicit Scenario(unsigned number) : seed(number) {
    std::mt19937 draw(number);
    ranks = 2 + static_cast<int>(draw() % 2);
    servers = ranks > 2 && draw() % 2 == 0 ? 1 : 0;
    victim = static_cast<int>(draw() % static_cast<unsigned>(ranks));
    fault = static_cast<Fault>(draw() % 3);
    delay = std::chrono::milliseconds(draw() % 1000);
    length = std::chrono::milliseconds(100 + draw() % 1500);
  }
  std::string text() const {
    constexpr std::array<const char*, 3> faults{"stopped for a while", "stopped for good", "killed"};
    return fmt::format("scenario {}: {} ranks, {} of them servers, rank {} is {} after {} ms", seed, ranks, servers, victim,
                       faults.at(static_cast<std::size_t>(fault)), delay.count());
  }

  unsigned seed;
  int ranks, servers, victim;
  Fault fault;
  std::chrono::milliseconds delay, length;
};

class Scenarios : public MpiCommand {
 protected:
  std::vector<std::string> words_of(const Scenario& scenario, const std::string& run) const {
    std::vector<std::string> more{"model.n_embd=64",
                                  "model.block_size=32",
                                  "model.batch_size=8",
                                  "train.max_iters=240",
                                  "train.log_interval=5",
                                  "train.eval_interval=1000",
                                  "checkpoint.interval=20",
                                  "sample.tokens=0",
                                  "train.threads=1",
                                  "train.init_from=auto",
                                  fmt::format("comm.timeout={}", timeout)};
    if (scenario.servers > 0) more.insert(more.end(), {"train.backend=ps", fmt::format("parallel.servers={}", scenario.servers)});
    return words(run, more);
  }

  /// The undisturbed run, its ranks threads of this process.
  std::string reference_of(const Scenario& scenario) {
    const std::string run = fmt::format("whole_{}_{}", scenario.ranks, scenario.servers);
    if (std::filesystem::exists(folder_ / run)) return run;
    const Outcome outcome = in_threads(scenario, run);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return run;
  }
  Outcome in_threads(const Scenario& scenario, const std::string& run) const {
    std::vector<std::string> all = words_of(scenario, run);
    all.insert(all.end(), {"--ranks", std::to_string(scenario.ranks)});
    return lockstep(all);
  }

  void expect_same_end(const std::string& reference, const std::string& run) const {
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = std::string("/checkpoints/step_240/") + name;
      EXPECT_TRUE(file(reference + path) == file(run + path)) << run << path;
    }
  }

  void play(const Scenario& scenario) {
    const std::string run = fmt::format("scenario_{}", scenario.seed), folder = (folder_ / run).string();
    std::vector<std::string> command = words_of(scenario, run);
    command.insert(command.begin(), program());
    auto job = std::async(std::launch::async, [&] { return test::run_job(scenario.ranks, shell_words(command)); });
    const auto ended = [&] { return job.wait_for(std::chrono::milliseconds(2)) == std::future_status::ready; };
    EXPECT_TRUE(support::comes_true([&] { return ended() || std::filesystem::exists(folder + "/config.toml"); }));
    if (!ended()) std::this_thread::sleep_for(scenario.delay);
    const pid_t victim = process_of(folder, scenario.victim);
    const double since = now_seconds();
    if (victim > 0) kill(victim, scenario.fault == Fault::kill ? SIGKILL : SIGSTOP);
    if (victim > 0 && scenario.fault == Fault::pause) {
      std::this_thread::sleep_for(scenario.length);
      kill(victim, SIGCONT);
    }
    // Stopped at its end, after the others have left, it is waited for by mpirun alone; a person would look, and kill it.
    const auto in_time = std::chrono::seconds(static_cast<int>(timeout) + 5);
    const bool at_its_end = victim > 0 && scenario.fault == Fault::stop && job.wait_for(in_time) != std::future_status::ready &&
                            std::filesystem::exists(folder + "/checkpoints/step_240/manifest.json");
    if (at_its_end) kill(victim, SIGKILL);
    const test::JobOutcome outcome = job.get();
    const double taken = now_seconds() - since;
    const std::string reference = reference_of(scenario);
    if (outcome.code != 0 && !at_its_end) {
      EXPECT_NE(scenario.fault, Fault::pause) << outcome.output;
      EXPECT_NE(outcome.code, test::too_long) << outcome.output;
      EXPECT_NE(outcome.output.find(fmt::format("rank {}", scenario.victim)), std::string::npos) << outcome.output;
      EXPECT_LT(taken, timeout + 5 + slack);
      const Outcome rest = in_threads(scenario, run);
      EXPECT_EQ(rest.code, 0) << rest.err;
    }
    expect_same_end(reference, run);
    fmt::print("{}: exit code {}, {:.1f} s\n", scenario.text(), outcome.code, taken);
    std::fflush(stdout);
    std::filesystem::remove_all(folder);
  }

  void play_launched(const Scenario& scenario) {
    const std::string run = fmt::format("launched_{}", scenario.seed), folder = (folder_ / run).string();
    const std::string out = (folder_ / "out").string();
    std::vector<std::string> command{"launch", "-n", std::to_string(scenario.ranks), "--oversubscribe", "--retries", "9", "--"};
    const std::vector<std::string> train = words_of(scenario, run);
    command.insert(command.end(), train.begin(), train.end());
    command.insert(command.end(), {"checkpoint.seconds=0.2", "checkpoint.interval=1000", "comm.timeout=15"});
    if (scenario.servers == 0 && scenario.seed % 2 == 0) command.emplace_back("checkpoint.copies=neighbour");
    const std::string line = "LOCKSTEP_SCHEDULER=none timeout -k 5 200 " + text_of(command) + " >" + out + " 2>&1";
    auto job = std::async(std::launch::async, [&] { return std::system(line.c_str()); });
    const auto ended = [&] { return job.wait_for(std::chrono::milliseconds(2)) == std::future_status::ready; };
    std::mt19937 draw(scenario.seed);
    const auto attempts = 1 + draw() % 3;
    pid_t before = 0;
    for (unsigned attempt = 0; attempt < attempts && !ended(); ++attempt) {
      pid_t victim = 0;
      const int rank = static_cast<int>(draw() % static_cast<unsigned>(scenario.ranks));
      EXPECT_TRUE(support::comes_true([&] { return ended() || ((victim = process_of(folder, rank)) > 0 && victim != before); }));
      std::this_thread::sleep_for(std::chrono::milliseconds(draw() % 1500));
      // What is stopped for good is noticed after comm.timeout.
      if (victim > 0 && !ended()) kill(victim, scenario.fault == Fault::stop && attempt == 0 ? SIGSTOP : SIGKILL);
      before = victim;
    }
    const int status = job.get();
    EXPECT_EQ(WEXITSTATUS(status), 0) << content_of(out);
    expect_same_end(reference_of(scenario), run);
    std::filesystem::remove_all(folder);
  }
};

/// Ranks of a launched run are killed or stopped for good, up to three in a row. Each fault comes a while after the start of an
/// attempt.
TEST_F(Scenarios, ALaunchedRunComesToTheSameEndByItself) {
  const int count = number_set("LOCKSTEP_SCENARIOS", 2), first = number_set("LOCKSTEP_SCENARIO_SEED", 1);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const Scenario scenario(static_cast<unsigned>(first + i));
    SCOPED_TRACE(scenario.text());
    play_launched(scenario);
  }
}

TEST_F(Scenarios, EndWithTheSameBitsOrNameTheRank) {
  const int count = number_set("LOCKSTEP_SCENARIOS", 2), first = number_set("LOCKSTEP_SCENARIO_SEED", 1);
  for (int i = 0; i < count; ++i) {
    const Scenario scenario(static_cast<unsigned>(first + i));
    SCOPED_TRACE(scenario.text());
    play(scenario);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace lockstep::app
