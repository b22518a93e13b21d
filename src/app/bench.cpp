// `lockstep bench`: how fast this machine trains, and how fast it could.

#include <fmt/format.h>

#include <cstdio>

#include "app/build_info.h"
#include "app/command_line.h"
#include "app/commands.h"
#include "app/help.h"
#include "app/session.h"
#include "base/error.h"
#include "lab/bench_step.h"
#include "lab/machine.h"

namespace lockstep::app {
namespace {

struct StepCommandOptions {
  std::string shape = "tiny";
  std::string dtype = "fp32";
  std::string isa = "auto";
  std::int64_t threads = 0;
  std::int64_t steps = 20;
  double seconds = 40;
  bool json = false, details = false;
};

bool parse(const Arguments& arguments, StepCommandOptions& options) {
  CommandLine line(
      "bench step",
      "Times whole optimizer steps (forward, backward, clipping, AdamW; one fixed batch) of a GPT-2 model with biases, "
      "tanh GELU, a tied head and no dropout, and shows where the time goes.");
  line.option("--shape", options.shape, "SHAPE",
              "tiny, char-12x64, char, gpt2:4x64, gpt2:1x1024, gpt2:4x1024 (samples x length)");
  line.choice("--dtype", options.dtype, {"fp32", "float32", "bf16", "bfloat16"}, "fp32; bf16 comes later");
  line.option("--threads", options.threads, "N", "0: every core");
  line.option("--isa", options.isa, "SET", "auto, avx2, avx512, avx512_bf16");
  line.option("--steps", options.steps, "N", "timed steps, behind 2 to warm up (at least 3 are timed)");
  line.option("--seconds", options.seconds, "S", "begin no further step after so long");
  line.flag("--details", options.details, "every kind of kernel and every product, with its rate");
  line.flag("--json", options.json, "one line of JSON");
  line.note("example:\n  lockstep bench step --shape char --seconds 20 --details");
  if (!line.parse(arguments)) return false;
  if (options.dtype == "bf16" || options.dtype == "bfloat16") {
    throw UserError(fmt::format("--dtype {}: there are no bf16 kernels yet", options.dtype), "--dtype fp32");
  }
  return true;
}

int bench_step(const Arguments& arguments) {
  StepCommandOptions options;
  if (!parse(arguments, options)) return 0;
  const lab::StepShape& shape = lab::step_shape(options.shape);
  Session session(static_cast<int>(options.threads), ops::isa_from_name(options.isa));
  lab::StepReport report =
      lab::bench_step(shape, {.steps = static_cast<int>(options.steps), .seconds = options.seconds, .version = kVersion},
                      session.runtime(), session.ops(), session.world());
  report.peak_flops = lab::fma_peak(session.team());
  if (options.json) {
    fmt::print("{}\n", lab::to_json(report).dump());
  } else {
    fmt::print("{}", lab::to_text(report, options.details));
  }
  return 0;
}

struct Bench {
  std::string name, summary;
  int (*run)(const Arguments& arguments);
};

const std::vector<Bench>& benches() {
  static const std::vector<Bench> all = {
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
