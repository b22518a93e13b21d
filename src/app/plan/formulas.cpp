// `lockstep plan flops|network|waves|law`: formulas of the field, with their figures.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "app/cli/command_line.h"
#include "app/plan/questions.h"
#include "base/error.h"
#include "base/units.h"
#include "planner/formulas/memory_rules.h"
#include "planner/formulas/network.h"
#include "planner/formulas/throughput.h"
#include "planner/waves.h"

namespace lockstep::app {
namespace {

const std::vector<std::string> recompute_words{"none", "full"};

/// Whole numbers from 1 on with `separator` between; nothing for another text.
std::optional<std::vector<std::int64_t>> counts_from(std::string_view text, char separator) {
  constexpr std::int64_t most = 1'000'000'000;
  std::vector<std::int64_t> counts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    std::int64_t count = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, count);
    if (error != std::errc{} || stop != text.data() + end || count < 1 || count > most) return std::nullopt;
    counts.push_back(count);
    at = end + 1;
  }
  return counts;
}

struct Amount {
  std::string_view option;
  double value;
  bool whole = true;
  bool or_none = false;  ///< 0: it is not known
};
/// What is counted in floating point, but has to be something: everything that is not, at once.
void demand_amounts(const std::vector<Amount>& amounts) {
  constexpr double least = 1e-12, most = 1e18;
  std::vector<Problem> problems;
  for (const auto& [option, value, whole, or_none] : amounts) {
    const bool good = whole ? value >= 1 && value == std::floor(value) : value >= least;
    if ((good && value <= most) || (or_none && value == 0)) continue;
    problems.push_back(
        {fmt::format("{} {}: must be {} to {:g}{}", option, value,
                     whole ? "a whole number from 1" : fmt::format("from {:g}", least), most, or_none ? ", or 0" : ""),
         fmt::format("{} {:g}", option, value > most ? most : 1.0)});
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

/// Very large ones in digits that matter.
std::string tflops_text(double rate) { return rate < 1e6 ? fmt::format("{:.2f}", rate) : fmt::format("{:.4g}", rate); }

}  // namespace

int plan_flops(const Arguments& arguments) {
  planner::TimedStep step;
  std::string recompute = "none";
  double peak = 0;
  CommandLine line("plan flops",
                   "TFLOPS of each device of a step that was timed: parameters x passes x 2 x positions x samples / (seconds x "
                   "devices). Three passes are the model's (forward one, backward two); recomputation makes a fourth.");
  line.positive("--params", step.parameters, "N", "parameters of the model", true);
  line.positive("--devices", step.devices, "N", "that share the step", true);
  line.positive("--global-batch", step.samples, "N", "samples of a step, over all devices", true);
  line.positive("--seq", step.positions, "T", "positions of a sample", true);
  line.positive("--seconds", step.seconds, "S", "of a step, its batch and its log line included", true);
  line.choice("--recompute", recompute, recompute_words, "full: the forward pass is made again in the backward pass");
  line.option("--peak", peak, "TFLOPS", "of a device: MFU and HFU are parts of it; 0: left out");
  line.note(
      "example:\n  lockstep plan flops --params 52e9 --devices 64 --global-batch 1024 --seq 2048 --seconds 127 --recompute full");
  if (!line.parse(arguments)) return 0;
  demand_amounts({{"--params", step.parameters},
                  {"--devices", step.devices},
                  {"--global-batch", step.samples},
                  {"--seq", step.positions},
                  {"--seconds", step.seconds, false},
                  {"--peak", peak, false, true}});
  step.recompute = recompute == "full";
  const planner::Throughput rate = throughput(step);
  fmt::print("{} TFLOPS a device", tflops_text(rate.hardware));
  if (step.recompute) fmt::print(", of which {} for the model and the rest for what is made again", tflops_text(rate.model));
  fmt::print("\n");
  if (peak > 0)
    fmt::print("MFU {:.1f} %, HFU {:.1f} % of {:g} TFLOPS\n", 100 * rate.model / peak, 100 * rate.hardware / peak, peak);
  return 0;
}

namespace {

void print_network(const planner::SharingStrategy& strategy, const planner::NetworkAnswer& answer, double busbw) {
  fmt::print("{:<28} {}\n", "bytes to move in a step",
             fmt::format("{:.1f} GB ({:g} x the model{})", answer.bytes * 1e-9, strategy.volume,
                         strategy.every_microbatch ? ", each micro-batch" : ""));
  if (busbw > 0) fmt::print("{:<28} {:.1f} s\n", fmt::format("communication at {:g} GB/s", busbw), answer.seconds(busbw));
  fmt::print("{:<28} {:.2f} s\n", "computation", answer.compute_seconds);
  fmt::print("{:<28} {:.1f} GB/s ({:.0f} Gbit/s)\n", "bandwidth that is enough", answer.bandwidth, 8 * answer.bandwidth);
  if (busbw <= 0) return;
  if (!answer.network_bound(busbw)) {
    fmt::print("compute-bound: communication can hide behind computation\n");
    return;
  }
  fmt::print(
      "network-bound: {:.2f} s of communication cannot hide\n"
      "  helps: more tokens a step and device (a larger micro-batch, longer samples), ranks that share out less "
      "(memory.zero=1),\n"
      "    ranks that share out inside a node (memory.zero_group=node), model parallelism inside a node (parallel.tp, "
      "parallel.pp)\n"
      "  does not help: faster kernels and better shapes of products, less recomputation, a faster data loader, faster devices:\n"
      "    they make the time shorter that communication hides behind\n",
      answer.seconds(busbw) - answer.compute_seconds);
}

}  // namespace

int plan_network(const Arguments& arguments) {
  planner::NetworkQuestion question;
  std::string name = "zero3", recompute = "none";
  double busbw = 0;
  CommandLine line("plan network",
                   "Whether a network keeps up with devices that share a model's state: seconds of a step's collectives beside "
                   "seconds of its products. Without --busbw: the bandwidth that is enough.");
  std::vector<std::string> names;
  for (const planner::SharingStrategy& strategy : planner::sharing_strategies()) names.emplace_back(strategy.name);
  line.choice("--strategy", name, names, "what ranks share out");
  line.positive("--params", question.parameters, "N", "parameters of the model", true);
  line.positive("--devices", question.devices, "N", "that share the step", true);
  line.positive("--global-batch", question.samples, "N", "samples of a step, over all devices", true);
  line.positive("--seq", question.positions, "T", "positions of a sample", true);
  line.positive("--tflops", question.tflops, "TFLOPS", "that a device reaches", true);
  line.option("--busbw", busbw, "GB/s", "of the collectives, as lockstep bench collectives measures it; 0: not known");
  line.positive("--bytes", question.bytes, "N", "of a parameter and of its gradient, as they are sent");
  line.positive("--gas", question.microbatches, "N", "micro-batches of a step: zero2 and zero3 exchange in each");
  line.choice("--recompute", recompute, recompute_words, "full: the forward pass is made again in the backward pass");
  line.note(
      "example:\n  lockstep plan network --strategy zero3 --params 80e9 --devices 512 --global-batch 3584 --seq 1024 --tflops "
      "250 "
      "--busbw 42.5 --recompute full");
  if (!line.parse(arguments)) return 0;
  demand_amounts({{"--params", question.parameters},
                  {"--devices", question.devices},
                  {"--global-batch", question.samples},
                  {"--seq", question.positions},
                  {"--tflops", question.tflops, false},
                  {"--busbw", busbw, false, true},
                  {"--bytes", question.bytes, false},
                  {"--gas", question.microbatches}});
  question.recompute = recompute == "full";
  const planner::SharingStrategy& strategy = *planner::find_strategy(name);
  print_network(strategy, ask_network(strategy, question), busbw);
  return 0;
}

namespace {

struct WavesOptions {
  std::int64_t tiles = 0;
  std::string product, tile = "128x256", units;
};

std::int64_t tiles_of(const WavesOptions& options, std::vector<Problem>& problems) {
  if (options.product.empty()) {
    if (options.tiles < 1)
      problems.push_back(
          {fmt::format("--tiles {}: there is at least one tile", options.tiles), "--tiles 152, or --product 8192x14336"});
    return options.tiles;
  }
  const auto product = counts_from(options.product, 'x'), tile = counts_from(options.tile, 'x');
  const auto demand_pair = [&](std::string_view option, const std::string& text, const auto& sizes, std::string_view example) {
    if (sizes && sizes->size() == 2) return;
    problems.push_back(
        {fmt::format("{} {}: must be two whole numbers, rows x columns", option, text), fmt::format("{} {}", option, example)});
  };
  demand_pair("--product", options.product, product, "8192x14336");
  demand_pair("--tile", options.tile, tile, "128x256");
  if (options.tiles != 0) problems.push_back({"--tiles and --product: a product has the tiles that it has", "give one of them"});
  if (!problems.empty()) return 0;
  const planner::TileSize size{(*tile)[0], (*tile)[1]};
  const std::int64_t tiles = planner::tiles_of((*product)[0], (*product)[1], size);
  fmt::print("{} tiles of {}, {:.1f} % of them filled\n", format_count(tiles), options.tile,
             100 * planner::tile_efficiency((*product)[0], (*product)[1], size));
  return tiles;
}

}  // namespace

int plan_waves(const Arguments& arguments) {
  WavesOptions options;
  CommandLine line(
      "plan waves",
      "How well a product's tiles fill a device's units: tiles go through them in waves, and the last one takes as long "
      "as the others. x: times as fast as on the first.");
  line.option("--tiles", options.tiles, "N", "of the product's result");
  line.option("--product", options.product, "MxN", "or its rows x columns, from which tiles follow");
  line.option("--tile", options.tile, "MxN", "rows x columns of a tile");
  line.option("--units", options.units, "N,N", "of each device: A100 108, H100 and H200 132, B200 148");
  line.note("example:\n  lockstep plan waves --tiles 152 --units 148,152");
  if (!line.parse(arguments)) return 0;
  std::vector<Problem> problems;
  const auto units = counts_from(options.units, ',');
  if (!units)
    problems.push_back({fmt::format("--units {}: must be whole numbers with commas between", options.units), "--units 148,152"});
  const std::int64_t tiles = tiles_of(options, problems);
  if (!problems.empty()) throw UserError(std::move(problems));
  fmt::print("{:>7} {:>7} {:>9} {:>7}\n", "units", "waves", "filled", "x");
  for (const std::int64_t each : *units) {
    fmt::print("{:>7} {:>7} {:>7.1f} % {:>7.3f}\n", each, planner::waves(tiles, each),
               100 * planner::wave_efficiency(tiles, each), planner::wave_speedup(tiles, units->front(), each));
  }
  return 0;
}

int plan_law(const Arguments& arguments) {
  double parameters = 0, devices = 0;
  CommandLine line("plan law",
                   "GB that a rank keeps of weights (2 bytes a parameter), gradients (2) and the optimizer's state (12), with "
                   "nothing shared out, the optimizer's state, gradients too, and weights too (ZeRO 0 to 3).");
  line.positive("--params", parameters, "N", "parameters of the model", true);
  line.positive("--devices", devices, "N", "that share the state out", true);
  line.note("example:\n  lockstep plan law --params 7.5e9 --devices 64");
  if (!line.parse(arguments)) return 0;
  demand_amounts({{"--params", parameters}, {"--devices", devices}});
  std::vector<std::string> texts;
  for (const double bytes : planner::zero_law(parameters, devices))
    texts.push_back(fmt::format("{:.4g}", std::round(bytes * 1e-8) / 10));
  fmt::print("{} GB\n", fmt::join(texts, " "));
  return 0;
}

}  // namespace lockstep::app
