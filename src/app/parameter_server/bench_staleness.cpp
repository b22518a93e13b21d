// `lockstep bench staleness`: what waiting less costs. One training, by data parallelism and by parameter servers in their modes.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line.h"
#include "app/parameter_server/parameter_server.h"
#include "app/parameter_server/roles.h"
#include "app/session.h"
#include "app/settings/resolve.h"
#include "app/train_rank.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/timer.h"
#include "comm/mpi/mpi_job.h"
#include "data/prepare/prepare.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "lab/staleness.h"

namespace lockstep::app {
namespace {

struct Options {
  std::int64_t ranks = 4, servers = 1;
  std::string bounds = "0,1,4,16,none";
  std::string data;
  bool json = false;
  settings::Sources sources;
};

/// What is trained unless the user says otherwise: some seconds a mode on two cores.
const std::vector<std::string>& small_training() {
  static const std::vector<std::string> words = {"model.n_layer=2",
                                                 "model.n_head=2",
                                                 "model.n_embd=64",
                                                 "model.block_size=64",
                                                 "model.batch_size=2",
                                                 "train.max_iters=480",
                                                 "train.warmup_iters=20",
                                                 "train.eval_interval=40",
                                                 "train.eval_iters=20",
                                                 "train.log_interval=1000",
                                                 "checkpoint.interval=100000",
                                                 "optimizer.learning_rate=2e-3",
                                                 "optimizer.min_lr=2e-4",
                                                 "optimizer.schedule=cosine",
                                                 "sample.tokens=0",
                                                 "train.threads=1"};
  return words;
}

/// A folder of this process for the time of the bench.
class Workplace {
 public:
  Workplace() {
    std::string name = (io::temporary_folder() / "lockstep-staleness-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) io::throw_file_error(errno, "make the folder", name);
    path_ = name;
  }
  ~Workplace() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  const io::Path& path() const { return path_; }

 private:
  io::Path path_;
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line("bench staleness",
                   "Trains one model on the same tokens with data parallelism, with parameter servers that wait for all workers "
                   "(gradients, weights) and with asynchronous ones, and shows what staleness does to the validation loss.");
  line.option("--ranks", options.ranks, "N", "ranks that train, threads of this process; servers come on top");
  line.option("--servers", options.servers, "N", "parameter servers");
  line.option("--bounds", options.bounds, "LIST", "of asynchronous workers, in steps (parallel.staleness); none: no bound");
  line.option("--data", options.data, "FOLDER", "prepared tokens; none: a made-up text");
  line.flag("--json", options.json, "one line of JSON");
  options.sources.declare(line);
  line.note("example:\n  lockstep bench staleness --ranks 4 --bounds 1,none model.n_embd=128 train.max_iters=1000");
  return line.parse(arguments);
}

std::vector<std::optional<std::int64_t>> bounds_from(const std::string& list) {
  std::vector<std::optional<std::int64_t>> bounds;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string word = list.substr(at, comma - at);
    at = comma + 1;
    if (word == "none") {
      bounds.emplace_back();
      continue;
    }
    if (word.empty() || word.size() > 9 || word.find_first_not_of("0123456789") != std::string::npos) {
      throw UserError(fmt::format("--bounds {}: '{}' is neither a number of steps nor none", list, word), "--bounds 0,4,none");
    }
    bounds.emplace_back(std::stoll(word));
  }
  return bounds;
}

void check(const Options& options) {
  std::vector<Problem> problems;
  if (comm::find_mpi_job()) {
    problems.push_back(
        {"bench staleness under mpiexec: its ranks are threads of one process", "start it without mpiexec or srun"});
  }
  if (options.ranks < 1 || options.ranks > 512)
    problems.push_back({fmt::format("--ranks {}: must be from 1 to 512", options.ranks), "--ranks 4"});
  if (options.servers < 1 || options.servers > 512)
    problems.push_back({fmt::format("--servers {}: must be from 1 to 512", options.servers), "--servers 1"});
  if (!problems.empty()) throw UserError(std::move(problems));
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

class Bench {
 public:
  Bench(const Options& options, const Workplace& place)
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
    if (history.staleness) {
      run.mean = history.staleness->mean;
      run.greatest = static_cast<double>(history.staleness->greatest);
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

  const Options& options_;
  const Workplace& place_;
  std::string data_;
  lab::StalenessReport report_;
};

}  // namespace

int bench_staleness(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  check(options);
  const std::vector<std::optional<std::int64_t>> bounds = bounds_from(options.bounds);
  const Workplace place;
  Bench bench(options, place);
  ProgressBar bar(stderr, "bench staleness", static_cast<double>(3 + bounds.size()));
  const std::string servers = fmt::format("parallel.servers={}", options.servers);
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
  bar.finish();
  fmt::print("{}\n", options.json ? lab::to_json(bench.report()).dump() : lab::to_text(bench.report()));
  return 0;
}

}  // namespace lockstep::app
