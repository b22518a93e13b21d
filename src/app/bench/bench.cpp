// `lockstep bench`: how fast this machine trains, and how fast it could.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "app/build_info.h"
#include "app/command_line.h"
#include "app/commands.h"
#include "app/fitness/fitness.h"
#include "app/help.h"
#include "app/parameter_server/parameter_server.h"
#include "app/run_config.h"
#include "app/session.h"
#include "base/error.h"
#include "comm/mpi/mpi_job.h"
#include "lab/machine.h"
#include "lab/step/bench_step.h"

namespace lockstep::app {
namespace {

struct StepCommandOptions {
  std::string shape = "tiny";
  std::string dtype = "fp32";
  std::string layout;
  std::string isa = "auto";
  std::int64_t threads = 0, ranks = 1;
  std::int64_t steps = 20;
  double seconds = 40;
  bool json = false, details = false, no_floor = false;
};

bool parse(const Arguments& arguments, StepCommandOptions& options) {
  CommandLine line(
      "bench step",
      "Times whole optimizer steps (forward, backward, clipping, AdamW; one fixed batch) of a GPT-2 model with biases "
      "and tanh GELU, or of a Llama, with a tied head and no dropout, and shows where the time goes. The floor is the time of "
      "the step's products at "
      "the best rate that any library reaches here for their shapes, and of the optimizer's bytes.");
  line.option("--shape", options.shape, "SHAPE", fmt::format("{} (samples x length)", fmt::join(lab::step_shape_names(), ", ")));
  line.choice("--dtype", options.dtype, dtype_spellings(), "type of weights and activations; bf16 has fp32 master weights");
  line.option("--layout", options.layout, "WORDS",
              "how ranks share the training, in the words of lockstep verify --help: dp=2,tp=2,zero=1; without the floor where "
              "these are several");
  line.option("--ranks", options.ranks, "N", "short for --layout dp=N: ranks that share the samples and the cores");
  line.option("--threads", options.threads, "N", "of each rank; 0: its share of the cores");
  line.option("--isa", options.isa, "SET", "auto, avx2, avx512, avx512_bf16");
  line.option("--steps", options.steps, "N", "timed steps, behind 2 to warm up (at least 3 are timed)");
  line.option("--seconds", options.seconds, "S", "begin no further step after so long");
  line.flag("--no-floor", options.no_floor, "leave out the floor, which takes 5 to 20 s to measure");
  line.flag("--details", options.details, "every kind of kernel and every product, with its rate");
  line.flag("--json", options.json, "one line of JSON");
  line.note("example:\n  lockstep bench step --shape char --seconds 20 --details");
  if (!line.parse(arguments)) return false;
  if (!options.layout.empty() && options.ranks != 1) {
    throw UserError(
        fmt::format("--ranks {} and --layout {}: a layout says how many ranks there are", options.ranks, options.layout),
        fmt::format("--layout dp={},...", options.ranks));
  }
  return true;
}

int bench_step(const Arguments& arguments) {
  StepCommandOptions options;
  if (!parse(arguments, options)) return 0;
  const lab::StepShape& shape = lab::step_shape(options.shape);
  std::optional<lab::Layout> layout;
  if (!options.layout.empty()) {
    std::vector<Problem> problems;
    layout = lab::layout_from(options.layout, problems, lab::bench_defaults);
    if (!problems.empty()) throw UserError(std::move(problems));
  }
  const bool processes = comm::find_mpi_job().has_value();  // which are the ranks
  const std::int64_t threads = layout && !processes ? layout->plan.ranks() : options.ranks;
  const RankOptions ranks{.ranks = threads, .threads = options.threads, .isa = ops::isa_from_name(options.isa)};
  const parallel::WeightStorage weights{.type = dtype_from_spelling(options.dtype)};
  run_on_ranks(ranks, [&](Session& session) {
    lab::StepReport report =
        lab::bench_step(shape,
                        {.weights = weights,
                         .layout = layout,
                         .steps = static_cast<int>(options.steps),
                         .seconds = options.seconds,
                         .version = kVersion,
                         .observed_ops = [&](ops::OpObserver& observer) { return session.make_ops(&observer); }},
                        session.runtime(), session.ops(), session.world());
    report.peak_flops = lab::fma_peak(session.team()) * session.world().size();
    if (!session.lead()) return;
    if (!options.no_floor && session.world().size() == 1)
      report.floor = lab::measure_floor(shape, weights, session.runtime(), session.isa());
    if (options.json) {
      fmt::print("{}\n", lab::to_json(report).dump());
    } else {
      fmt::print("{}", lab::to_text(report, options.details));
    }
  });
  return 0;
}

int bench_rate(const Arguments& arguments) {
  double seconds = 0.2;
  bool json = false;
  CommandLine line(
      "bench rate",
      "The rate of multiply-adds in registers on all cores, now: what other figures of the same moments are parts of, "
      "on a machine whose speed changes.");
  line.option("--seconds", seconds, "S", "to count for");
  line.flag("--json", json, "one line of JSON");
  line.note("example:\n  lockstep bench rate");
  if (!line.parse(arguments)) return 0;
  if (!(seconds > 0 && seconds <= 60))
    throw UserError(fmt::format("--seconds {}: must be above 0, up to 60", seconds), "--seconds 0.2");
  run_on_ranks({}, [&](Session& session) {
    const double gflops = 1e-9 * lab::fma_rate(session.team(), seconds);
    fmt::print("{}", json ? Json(Json::Object{{"gflops", gflops}}).dump() + "\n" : fmt::format("{:.1f} GF/s\n", gflops));
  });
  return 0;
}

struct Bench {
  std::string name, summary;
  int (*run)(const Arguments& arguments);
};

const std::vector<Bench>& benches() {
  static const std::vector<Bench> all = {
      {"checkpoint", "saving and loading beside what the disk does, and saving beside training", bench_checkpoint},
      {"collectives", "exchanges between ranks beside what memory allows", bench_collectives},
      {"gemm", "matrix products beside those of oneDNN and OpenBLAS", bench_gemm},
      {"io", "batches read from a file, each way that data.io knows", bench_io},
      {"ladder", "what each optimisation is worth, one after the other", bench_ladder},
      {"loader", "what threads of the data loader are worth", bench_loader},
      {"overhead", "what a line of metrics and a trace cost a step", bench_overhead},
      {"overlap", "how much of the exchange of gradients hides behind the backward pass", bench_overlap},
      {"rate", "multiply-adds a second, now", bench_rate},
      {"scaling", "training steps on 1, 2, 4, ... ranks: speed-up and efficiency", bench_scaling},
      {"staleness", "training by parameter servers that wait for workers, or do not", bench_staleness},
      {"step", "whole optimizer steps: tokens/s, memory, where the time goes", bench_step},
  };
  return all;
}

int run(const Arguments& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    std::vector<HelpRow> rows;
    for (const Bench& bench : benches()) rows.push_back({bench.name, bench.summary});
    fmt::print(
        "lockstep bench: how fast this machine trains, and how fast it could\n\nusage: lockstep bench NAME "
        "[options]\n\nbenches:\n{}\n"
        "lockstep bench NAME --help lists its options.\n",
        two_columns(rows));
    return 0;
  }
  std::vector<std::string> names;
  for (const Bench& bench : benches()) {
    if (bench.name == arguments[0]) return bench.run({arguments.begin() + 1, arguments.end()});
    names.push_back(bench.name);
  }
  throw UserError(fmt::format("unknown bench '{}'", arguments[0]), fmt::format("choose one of {}", fmt::join(names, ", ")));
}

}  // namespace

Command bench_command() { return {"bench", "how fast this machine trains, and how fast it could", run}; }

}  // namespace lockstep::app
