// `lockstep plan flops|network|waves|law`: formulas of the field, with their figures.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>

#include "app/folder/answer_line.h"
#include "app/plan/questions.h"
#include "base/number_text.h"
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
  for (const std::string& part : parts_of_list(text, separator)) {
    const auto count = number_from<std::int64_t>(part);
    if (!count || *count < 1 || *count > most) return std::nullopt;
    counts.push_back(*count);
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
void demand_amounts(AnswerLine& line, const std::vector<Amount>& amounts) {
  constexpr double least = 1e-12, most = 1e18;
  for (const auto& [option, value, whole, or_none] : amounts) {
    const bool good = whole ? value >= 1 && value == std::floor(value) : value >= least;
    line.demand((good && value <= most) || (or_none && value == 0),
                fmt::format("{} {}: must be {} to {:g}{}", option, value,
                            whole ? "a whole number from 1" : fmt::format("from {:g}", least), most, or_none ? ", or 0" : ""),
                fmt::format("{} {:g}", option, value > most ? most : 1.0));
  }
  line.check();
}

/// Very large ones in digits that matter.
std::string tflops_text(double rate) { return rate < 1e6 ? fmt::format("{:.2f}", rate) : fmt::format("{:.4g}", rate); }

/// `busbw`: GB/s; 0: not known.
Answer answer_of(const planner::SharingStrategy& strategy, const planner::NetworkAnswer& found, double busbw) {
  Answer answer;
  Table table = Table::of_text({"", ""});
  table.row({"bytes to move in a step", fmt::format("{:.1f} GB ({:g} x the model{})", found.bytes * 1e-9, strategy.volume,
                                                    strategy.every_microbatch ? ", each micro-batch" : "")});
  if (busbw > 0) table.row({fmt::format("communication at {:g} GB/s", busbw), fmt::format("{:.1f} s", found.seconds(busbw))});
  table.row({"computation", fmt::format("{:.2f} s", found.compute_seconds)});
  table.row({"bandwidth that is enough", fmt::format("{:.1f} GB/s ({:.0f} Gbit/s)", found.bandwidth, 8 * found.bandwidth)});
  answer.table("", table);
  answer.facts({{"bytes", found.bytes}, {"compute_seconds", found.compute_seconds}, {"enough_gbps", found.bandwidth}});
  if (busbw <= 0) return answer;
  answer.facts({{"seconds", found.seconds(busbw)}, {"network_bound", found.network_bound(busbw)}});
  if (!found.network_bound(busbw)) {
    answer.say("compute-bound: communication can hide behind computation\n");
    return answer;
  }
  std::string less;
  if (strategy.volume > 2 || strategy.every_microbatch) less = "ranks that share out less (memory.zero=1),\n    ";
  if (strategy.name == "zero3") less += "ranks that share out inside a node (memory.zero_group=node), ";
  answer.say(fmt::format(
      "network-bound: {:.2f} s of communication cannot hide\n"
      "  helps: more tokens a step and device (a larger micro-batch, longer samples), {}model parallelism inside a node "
      "(parallel.tp, parallel.pp)\n"
      "  does not help: faster kernels and better shapes of products, less recomputation, a faster data loader, faster devices:\n"
      "    they make the time shorter that communication hides behind\n",
      found.seconds(busbw) - found.compute_seconds, less));
  return answer;
}

struct WavesOptions {
  std::optional<std::int64_t> tiles;
  std::string product, tile = "128x256", units;
};

/// The product's tiles, of which it says how full they are; what is wrong becomes a problem of the line.
std::int64_t tiles_of(const WavesOptions& options, AnswerLine& line, Answer& answer) {
  if (options.product.empty()) {
    line.demand(options.tiles.value_or(0) >= 1,
                options.tiles ? fmt::format("--tiles {}: there is at least one tile", *options.tiles)
                              : "--tiles N or --product MxN is missing",
                "--tiles 152, or --product 8192x14336");
    return options.tiles.value_or(0);
  }
  const auto product = counts_from(options.product, 'x'), tile = counts_from(options.tile, 'x');
  const auto demand_pair = [&](std::string_view option, const std::string& text, const auto& sizes, std::string_view example) {
    line.demand(sizes && sizes->size() == 2, fmt::format("{} {}: must be two whole numbers, rows x columns", option, text),
                fmt::format("{} {}", option, example));
  };
  demand_pair("--product", options.product, product, "8192x14336");
  demand_pair("--tile", options.tile, tile, "128x256");
  line.demand(!options.tiles, "--tiles and --product: a product has the tiles that it has", "give one of them");
  if (!line.problems().empty()) return 0;
  const planner::TileSize size{(*tile)[0], (*tile)[1]};
  const std::int64_t tiles = planner::tiles_of((*product)[0], (*product)[1], size);
  const double filled = planner::tile_efficiency((*product)[0], (*product)[1], size);
  answer.say(fmt::format("{} tiles of {}, {:.1f} % of them filled\n", format_count(tiles), options.tile, 100 * filled));
  answer.fact("tiles_filled", filled);
  return tiles;
}

}  // namespace

int plan_flops(const Arguments& arguments) {
  planner::TimedStep step;
  std::string recompute = "none";
  double peak = 0;
  AnswerLine line("plan flops",
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
  if (!line.read(arguments)) return 0;
  demand_amounts(line, {{"--params", step.parameters},
                        {"--devices", step.devices},
                        {"--global-batch", step.samples},
                        {"--seq", step.positions},
                        {"--seconds", step.seconds, false},
                        {"--peak", peak, false, true}});
  step.recompute = recompute == "full";
  const planner::Throughput rate = throughput(step);
  line.demand(peak == 0 || rate.hardware <= peak,
              fmt::format("--seconds {:g}: the devices would reach {} TFLOPS each, above --peak {:g}", step.seconds,
                          tflops_text(rate.hardware), peak),
              "the seconds of a whole step, over all --devices, and the peak of their products");
  line.check();
  Answer answer;
  answer.say(tflops_text(rate.hardware) + " TFLOPS a device");
  answer.facts({{"tflops", rate.hardware}, {"model_tflops", rate.model}});
  if (step.recompute)
    answer.say(fmt::format(", of which {} for the model and the rest for what is made again", tflops_text(rate.model)));
  answer.say("\n");
  if (peak > 0) {
    answer.say(
        fmt::format("MFU {:.1f} %, HFU {:.1f} % of {:g} TFLOPS\n", 100 * rate.model / peak, 100 * rate.hardware / peak, peak));
    answer.facts({{"mfu", rate.model / peak}, {"hfu", rate.hardware / peak}});
  }
  line.print(answer);
  return 0;
}

int plan_network(const Arguments& arguments) {
  planner::NetworkQuestion question;
  std::string name = "zero3", recompute = "none";
  double busbw = 0;
  AnswerLine line("plan network",
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
  if (!line.read(arguments)) return 0;
  demand_amounts(line, {{"--params", question.parameters},
                        {"--devices", question.devices},
                        {"--global-batch", question.samples},
                        {"--seq", question.positions},
                        {"--tflops", question.tflops, false},
                        {"--busbw", busbw, false, true},
                        {"--bytes", question.bytes, false},
                        {"--gas", question.microbatches}});
  question.recompute = recompute == "full";
  const planner::SharingStrategy& strategy = *planner::find_strategy(name);
  line.print(answer_of(strategy, ask_network(strategy, question), busbw));
  return 0;
}

int plan_waves(const Arguments& arguments) {
  WavesOptions options;
  AnswerLine line("plan waves",
                  "How well a product's tiles fill a device's units. Tiles go through them in waves, and the last one takes as "
                  "long as the others. x: times as fast as on the first.");
  line.option("--tiles", options.tiles, "N", "of the product's result");
  line.option("--product", options.product, "MxN", "or its rows x columns, from which tiles follow");
  line.option("--tile", options.tile, "MxN", "rows x columns of a tile");
  line.option("--units", options.units, "N,N", "of each device: A100 108, H100 and H200 132, B200 148");
  line.ask_csv();
  line.note("example:\n  lockstep plan waves --tiles 152 --units 148,152");
  if (!line.read(arguments)) return 0;
  const auto units = counts_from(options.units, ',');
  line.demand(units.has_value(),
              options.units.empty() ? "--units N,N is missing"
                                    : fmt::format("--units {}: must be whole numbers with commas between", options.units),
              "--units 148,152");
  Answer answer;
  const std::int64_t tiles = tiles_of(options, line, answer);
  line.check();
  answer.fact("tiles", tiles);
  Table table({{"units", "units"}, {"waves", "waves"}, {"filled", "filled", "{:.1f} %", 100}, {"speedup", "x", "{:.3f}"}});
  for (const std::int64_t each : *units) {
    table.row({each, planner::waves(tiles, each), planner::wave_efficiency(tiles, each),
               planner::wave_speedup(tiles, units->front(), each)});
  }
  answer.table("devices", table);
  line.print(answer);
  return 0;
}

int plan_law(const Arguments& arguments) {
  double parameters = 0, devices = 0;
  AnswerLine line("plan law",
                  "GB that a rank keeps of weights (2 bytes a parameter), gradients (2) and the optimizer's state (12). ZeRO 0 "
                  "to 3: nothing is shared out, the optimizer's state, gradients too, weights too.");
  line.positive("--params", parameters, "N", "parameters of the model", true);
  line.positive("--devices", devices, "N", "that share the state out", true);
  line.note("example:\n  lockstep plan law --params 7.5e9 --devices 64");
  if (!line.read(arguments)) return 0;
  demand_amounts(line, {{"--params", parameters}, {"--devices", devices}});
  Json::Array bytes;
  std::vector<std::string> texts;
  for (const double each : planner::zero_law(parameters, devices)) {
    bytes.emplace_back(each);
    texts.push_back(fmt::format("{:.4g}", std::round(each * 1e-8) / 10));
  }
  Answer answer;
  answer.say(fmt::format("{} GB\n", fmt::join(texts, " ")));
  answer.fact("bytes", std::move(bytes));
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
