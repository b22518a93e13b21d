// `lockstep bench staleness`: what waiting less costs. One training, by data parallelism and by parameter servers in their modes.

#include "lab/staleness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/bench/bench.h"
#include "app/settings/run_layout.h"
#include "app/start/resolve.h"
#include "app/train/train_rank.h"
#include "base/number_text.h"
#include "base/timer.h"
#include "comm/mpi/mpi_job.h"
#include "data/prepare/prepare.h"
#include "io/file.h"
#include "io/temporary_folder.h"

namespace lockstep::app {
namespace {

struct StalenessAsked {
  std::int64_t ranks = 4, servers = 1;
  std::string bounds = "0,1,4,16,none";
  std::string data;
  settings::Sources sources;
};

/// What is trained unless the user says otherwise: some seconds a mode on two cores.
std::vector<std::string> small_training() {
  return parts_of_list(
      "model.n_layer=2,model.n_head=2,model.n_embd=64,model.block_size=64,model.batch_size=2,train.max_iters=480,"
      "train.warmup_iters=20,train.eval_interval=40,train.eval_iters=20,train.log_interval=1000,checkpoint.interval=100000,"
      "optimizer.learning_rate=2e-3,optimizer.min_lr=2e-4,optimizer.schedule=cosine,sample.tokens=0,train.threads=1");
}

/// Steps with commas between, or none: no bound.
std::vector<std::optional<std::int64_t>> bounds_from(const std::string& list) {
  std::vector<std::optional<std::int64_t>> bounds;
  for (const std::string& word : parts_of_list(list)) {
    const auto steps = number_from<std::int32_t>(word);
    if (word != "none" && (!steps || *steps < 0))
      throw UserError(fmt::format("--bounds {}: '{}' is neither a number of steps nor none", list, word), "--bounds 0,4,none");
    bounds.emplace_back(steps);
  }
  return bounds;
}

std::string make_data(const io::Path& folder) {
  io::replace_file(folder / "text.txt", lab::made_up_text(1, 400'000));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "w"), std::fclose);
  Log log(nowhere.get());
  data::PrepareOptions prepare;
  prepare.input = (folder / "text.txt").string();
  prepare.out = folder / "data";
  prepare.facts = prepare.progress = nowhere.get();
  data::prepare(prepare, log);
  return prepare.out.string();
}

lab::StalenessRun named(std::string mode) {
  lab::StalenessRun run;
  run.mode = std::move(mode);
  return run;
}

class StalenessBench {
 public:
  StalenessBench(const StalenessAsked& options, const io::TemporaryFolder& place)
      : options_(options), place_(place), data_(options.data.empty() ? make_data(place.path()) : options.data) {
    const settings::Resolved first = resolved({});
    const RunConfig& config = first.config;
    if (!first.idle.empty()) fmt::print(stderr, "{}\n", first.idle_text());
    report_.workers = options.ranks;
    report_.servers = options.servers;
    report_.steps = config.train.max_iters;
    report_.tokens = tokens_per_iteration(config, options.ranks) * config.train.max_iters;
  }

  /// False when the user has stopped it.
  bool run(lab::StalenessRun run, std::vector<std::string> words) {
    words.push_back(fmt::format("log.dir={}", (place_.path() / fmt::format("run{}", report_.runs.size())).string()));
    const RunConfig config = resolved(words).config;
    train::TrainingHistory history;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> log(std::fopen((place_.path() / "log.txt").c_str(), "w"), std::fclose);
    if (log == nullptr) throw SystemError(fmt::format("{}/log.txt cannot be written", place_.path().string()));
    run_on_ranks(rank_options(config, options_.ranks + servers_of(config)), [&](Session& session) {
      train::TrainingHistory own = train_rank(
          config, {.arguments = {"bench", "staleness"}, .started = now_seconds(), .name = "", .out = log.get()}, session);
      if (session.lead()) history = std::move(own);
    });
    if (history.diverged)
      throw UserError(fmt::format("{}: {}", run.mode, history.diverged->message), "a lower optimizer.learning_rate");
    run.tokens_per_second = history.tokens_per_second;
    if (const auto& staleness = history.last.staleness) {
      run.mean = staleness->mean;
      run.greatest = static_cast<double>(staleness->greatest);
    }
    run.validation = std::move(history.validation);
    report_.runs.push_back(std::move(run));
    return !history.stopped;
  }
  const lab::StalenessReport& report() const { return report_; }

 private:
  settings::Resolved resolved(const std::vector<std::string>& more) const {
    settings::Sources sources;
    sources.files = options_.sources.files;
    sources.overrides = small_training();
    sources.overrides.push_back("data.dir=" + data_);
    sources.overrides.insert(sources.overrides.end(), options_.sources.overrides.begin(), options_.sources.overrides.end());
    sources.overrides.insert(sources.overrides.end(), more.begin(), more.end());
    return settings::resolve(sources);
  }

  const StalenessAsked& options_;
  const io::TemporaryFolder& place_;
  std::string data_;
  lab::StalenessReport report_;
};

/// Every mode in turn, until the user stops it.
Answer compare_modes(const StalenessAsked& asked, BenchLine& line) {
  const std::vector<std::optional<std::int64_t>> bounds = bounds_from(asked.bounds);
  const io::TemporaryFolder place("staleness");
  StalenessBench bench(asked, place);
  ProgressBar bar = line.bar(static_cast<double>(3 + bounds.size()));
  const std::string servers = fmt::format("parallel.servers={}", asked.servers);
  double done = 0;
  const auto run = [&](const lab::StalenessRun& mode, const std::vector<std::string>& words) {
    bar.update(done++, mode.name());
    return bench.run(mode, words);
  };
  bool goes_on = run(named("DDP"), {"train.backend=DDP"});
  for (const std::string mode : {"gradients", "weights"}) {
    goes_on = goes_on && run(named("ps " + mode), {"train.backend=ps", servers, "parallel.ps=" + mode});
  }
  for (const std::optional<std::int64_t>& bound : bounds) {
    const std::string staleness = bound ? fmt::format("parallel.staleness={}", *bound) : "parallel.staleness=null";
    lab::StalenessRun mode = named("ps async");
    mode.asynchronous = true;
    mode.bound = bound;
    goes_on = goes_on && run(mode, {"train.backend=ps", servers, "parallel.ps=async", staleness});
  }
  return answer_of(bench.report());
}

std::optional<Answer> run_staleness(BenchLine& line) {
  StalenessAsked asked;
  line.count("--ranks", asked.ranks, "N", "ranks that train, threads of this process; servers come on top", 1, 512);
  line.count("--servers", asked.servers, "N", "parameter servers", 1, 512);
  line.option("--bounds", asked.bounds, "LIST", "of asynchronous workers, in steps (parallel.staleness); none: no bound");
  line.option("--data", asked.data, "FOLDER", "prepared tokens; none: a made-up text");
  asked.sources.declare(line);
  if (!line.read()) return {};
  line.demand(!comm::find_mpi_job(), "bench staleness under mpiexec: its ranks are threads of one process",
              "start it without mpiexec or srun");
  line.check();
  return compare_modes(asked, line);
}

}  // namespace

Bench staleness_bench() {
  return {"staleness", "training by parameter servers that wait for workers, or do not",
          "Trains one model on the same tokens with data parallelism, with parameter servers that wait for all workers "
          "(gradients, weights) and with asynchronous ones. Shows what staleness does to the validation loss.",
          "example:\n  lockstep bench staleness --ranks 4 --bounds 1,none model.n_embd=128 train.max_iters=1000", run_staleness};
}

}  // namespace lockstep::app
