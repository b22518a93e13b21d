// `lockstep test_dist`: a small run of known outcome on all ranks.

#include "app/fitness/test_dist.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/folder/run_name.h"
#include "app/start/dist_info.h"
#include "base/terminal.h"
#include "base/timer.h"
#include "base/units.h"
#include "io/file.h"
#include "lab/process.h"

namespace lockstep::app {
namespace {

std::string network(const lab::TestDistOptions& options) {
  const std::vector<std::int64_t> widths = lab::layer_widths(options);
  std::string text = "Network(\n  (layers): Sequential(\n";
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    text += fmt::format("    ({}): Linear(in_features={}, out_features={}, bias=True)\n", i, widths[i], widths[i + 1]);
  }
  return text + "  )\n)";
}

std::string configuration(const lab::TestDistOptions& options, int ranks) {
  return fmt::format(
      "[CONFIG]:\n  • warmup=0\n  • log_freq={}\n  • batch_size={}\n  • input_size={}\n  • output_size={}\n  • dtype=float32\n"
      "  • device=cpu\n  • world_size={}\n  • train_iters={}",
      options.log_every, options.batch, options.input, options.output, ranks, options.iterations);
}

void append(const io::Path& path, std::string_view text) {
  std::string all;
  if (io::exists(path)) {
    const io::MappedFile before(path);
    all.assign(reinterpret_cast<const char*>(before.bytes().data()), before.bytes().size());
  }
  all += text;
  io::Replacement file(path);
  file.file().write_at(0, std::as_bytes(std::span(all)));
  file.commit();
}

void plot_metrics(const std::vector<lab::TestDistIteration>& history, const io::Path& folder, Log& log) {
  using Iteration = lab::TestDistIteration;
  const std::array<std::pair<const char*, double (*)(const Iteration&)>, 6> metrics{{
      {"dt", [](const Iteration& i) { return i.seconds; }},
      {"dtf", [](const Iteration& i) { return i.forward; }},
      {"dtb", [](const Iteration& i) { return i.backward; }},
      {"loss", [](const Iteration& i) { return i.loss; }},
      {"iter", [](const Iteration& i) { return static_cast<double>(i.iteration); }},
      {"sps", [](const Iteration& i) { return i.samples_per_second; }},
  }};
  const std::string now = run_name_from_time();
  io::make_folders(folder / "train");
  for (const auto& [name, value] : metrics) {
    Series series{.name = name, .x = {}, .y = {}};
    for (const Iteration& i : history) {
      series.x.push_back(static_cast<double>(i.iteration));
      series.y.push_back(value(i));
    }
    const std::string drawing = plot(fmt::format("train/{} [{}]", name, now), "iter", {series});
    const io::Path file = folder / "train" / fmt::format("{}.txt", name);
    log.plain(drawing.substr(0, drawing.size() - 1));
    log.info(fmt::format("Appending plot to: {}", file.string()));
    append(file, drawing);
    log.plain(fmt::format("text saved in {}", file.string()));
  }
}

int run(const Arguments& arguments) {
  std::optional<std::int64_t> asked;
  CommandLine line("test_dist",
                   "Trains a small network of known outcome on all ranks: linear layers that learn to give back their input. "
                   "It takes 100 iterations of Adam with averaged gradients. The loss falls from 2,100-2,800 to about 360.");
  line.option("--ranks", asked, "N", "ranks (default: one a core; under mpiexec those it started)");
  line.note(
      "environment: BATCH_SIZE (64, of each rank), INPUT_SIZE (128), OUTPUT_SIZE (128), LAYER_SIZES (1024,512,256,128), "
      "TRAIN_ITERS "
      "(100), LOG_FREQ (1), DTYPE (float32), BACKEND (DDP)\nplots are appended to test-dist-plots/train/METRIC.txt");
  line.note("example:\n  TRAIN_ITERS=50 lockstep test_dist --ranks 2");
  if (!line.parse(arguments)) return 0;
  const lab::TestDistOptions options = lab::test_dist_options([](const char* name) { return std::getenv(name); });
  run_on_ranks({.ranks = rank_count(asked).to_start}, [&](Session& session) {
    Log log(stdout, session.lead() ? Level::info : Level::critical, LogForm::stamped);
    log_ranks(session, log);
    run_test_dist(options, "test-dist-plots", session, log);
    log.info(fmt::format("[{}] runtime={:.6f}s", session.world().rank(), lab::seconds_since_start()));
  });
  return 0;
}

}  // namespace

std::vector<lab::TestDistIteration> run_test_dist(const lab::TestDistOptions& options, const std::filesystem::path& plots,
                                                  Session& session, Log& log) {
  const double imports = lab::seconds_since_start();
  lab::TestDist run(options, session.runtime(), session.ops(), session.world());
  log.info(configuration(options, session.world().size()));
  log.info("model=" + network(options));
  log.info(fmt::format("parameters: {}", format_count(lab::parameters_of(options))));
  const double setup = lab::seconds_since_start();
  log.info(fmt::format("[timers]:\n  • imports={:.6f}\n  • setup={:.6f}", imports, setup - imports));
  std::vector<lab::TestDistIteration> history = run.run([&](const lab::TestDistIteration& i) { log.info(lab::to_line(i)); });
  if (session.lead() && !plots.empty() && !history.empty()) plot_metrics(history, plots, log);
  return history;
}

Command test_dist_command() { return {"test_dist", "a small training run of known outcome on all ranks", run}; }

}  // namespace lockstep::app
