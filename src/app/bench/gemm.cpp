// `lockstep bench gemm`: how fast products are, which shapes are fast, and which of a model's are not.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/plan/machine_file.h"
#include "app/plan/named_model.h"
#include "app/session.h"
#include "arch/step_sizes.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/terminal.h"
#include "lab/bench_gemm.h"
#include "lab/mamf.h"
#include "lab/step/step_shapes.h"
#include "lab/swiglu_widths.h"
#include "planner/product_advice.h"
#include "train/stop_signal.h"

namespace lockstep::app {
namespace {

constexpr std::int64_t most_size = 1 << 20;

struct GemmOptions {
  // Products beside other libraries'.
  std::vector<std::string> shapes;
  // --mamf
  bool mamf = false;
  std::string m, n, k;
  std::optional<std::int64_t> trials, warmups, seconds;
  // --advise
  std::string advise, machine;
  std::optional<std::int64_t> micro_batch, positions, tensor;
  // --swiglu
  std::optional<std::int64_t> swiglu, tokens;
  // Several of them.
  std::optional<std::int64_t> rounds;
  std::string isa = "auto", dtype = "fp32";
  std::int64_t threads = 0;
  bool json = false;
};

bool parse(const Arguments& arguments, GemmOptions& options) {
  CommandLine line(
      "bench gemm",
      "Times our products beside those of oneDNN and OpenBLAS (where it is installed) in interleaved rounds, on the "
      "layers of GPT-2 and Llama models: forward, gradient of the input, accumulating gradient of the weight. Figures are "
      "medians. The rate of multiply-adds is measured beside every sample; shares and ratios count in it. Or one of these: "
      "--mamf finds the highest rate over many shapes (as ml-engineering's finder: each call alone, caches flushed), --advise "
      "says which products of a model fill a machine's units badly and what to change, --swiglu which width of a SwiGLU near "
      "8/3 H is the fastest here.");
  line.option(
      "--shape", options.shapes, "SHAPE",
      fmt::format("{} (default: {})", fmt::join(lab::step_shape_names(), ", "), fmt::join(lab::GemmBenchOptions().models, ", ")));
  line.option("--rounds", options.rounds, "N", "interleaved rounds (default: 7; of --swiglu 3)");
  line.flag("--mamf", options.mamf, "the highest rate: mean, median and best of every shape m x n x k");
  line.option("--m", options.m, "A:B:C", "of --mamf: from A to B in steps of C, or one size (default: 512:2048:512)");
  line.option("--n", options.n, "A:B:C", "likewise");
  line.option("--k", options.k, "A:B:C", "likewise");
  line.option("--trials", options.trials, "N", "of --mamf: timed calls of a shape, at most (default: 100)");
  line.option("--warmups", options.warmups, "N", "of --mamf: calls before them, at most (default: 50)");
  line.option("--seconds", options.seconds, "S", "of --mamf: for all shapes together; each is timed 3 times (default: 60)");
  line.option("--advise", options.advise, "MODEL", "a model as plan --model knows it: its products' tiles and waves; no run");
  line.option("--machine", options.machine, "NAME|FILE", "of --advise: a100, h100, h200, b200 or a machine.toml");
  line.option("--micro-batch", options.micro_batch, "N", "of --advise: samples (default: 1)");
  line.option("--seq", options.positions, "T", "of --advise: positions of a sample (default: the model's)");
  line.option("--tp", options.tensor, "N", "of --advise: ranks that divide each layer (default: 1)");
  line.option("--swiglu", options.swiglu, "H", "width of the model: hidden widths of its SwiGLU, measured and ranked");
  line.option("--tokens", options.tokens, "N", "of --swiglu: rows of every product (default: 256)");
  line.option("--dtype", options.dtype, "TYPE", "fp32, or bf16 (of --shape beside our fp32)");
  line.option("--threads", options.threads, "N", "0: every core");
  line.option("--isa", options.isa, "SET", "auto, avx2, avx512, avx512_bf16");
  line.flag("--json", options.json, "one line of JSON");
  line.note(
      "examples:\n  lockstep bench gemm --shape tiny --shape gpt2:4x64\n  lockstep bench gemm --mamf --m 256:1024:256 --n 1024 "
      "--k "
      "1024\n  lockstep bench gemm --advise gpt2_xl --machine a100 --micro-batch 8\n  lockstep bench gemm --swiglu 768");
  return line.parse(arguments);
}

/// Every option that belongs to a way of asking that was not chosen, and ways that were chosen together.
void check_ways(const GemmOptions& options, std::vector<Problem>& problems) {
  const bool advise = !options.advise.empty(), swiglu = options.swiglu.has_value();
  if (options.mamf + advise + swiglu > 1)
    problems.push_back({"--mamf, --advise and --swiglu are questions of their own", "ask one at a time"});
  const auto demand = [&](bool chosen, bool given, std::string_view option, std::string_view way) {
    if (given && !chosen) problems.push_back({fmt::format("{} is an option of {}", option, way), fmt::format("add {}", way)});
  };
  demand(options.mamf, !options.m.empty(), "--m", "--mamf");
  demand(options.mamf, !options.n.empty(), "--n", "--mamf");
  demand(options.mamf, !options.k.empty(), "--k", "--mamf");
  demand(options.mamf, options.trials.has_value(), "--trials", "--mamf");
  demand(options.mamf, options.warmups.has_value(), "--warmups", "--mamf");
  demand(options.mamf, options.seconds.has_value(), "--seconds", "--mamf");
  demand(advise, !options.machine.empty(), "--machine", "--advise MODEL");
  demand(advise, options.micro_batch.has_value(), "--micro-batch", "--advise MODEL");
  demand(advise, options.positions.has_value(), "--seq", "--advise MODEL");
  demand(advise, options.tensor.has_value(), "--tp", "--advise MODEL");
  demand(swiglu, options.tokens.has_value(), "--tokens", "--swiglu H");
  demand(!options.mamf && !advise, options.rounds.has_value(), "--rounds", "--shape or --swiglu H");
  demand(!options.mamf && !advise && !swiglu, !options.shapes.empty(), "--shape",
         "bench gemm without --mamf, --advise, --swiglu");
}

void demand_between(std::vector<Problem>& problems, std::string_view option, const std::optional<std::int64_t>& value,
                    std::int64_t least, std::int64_t most, std::int64_t example) {
  if (value && (*value < least || *value > most))
    problems.push_back({fmt::format("{} {}: must be at least {}{}", option, *value, least,
                                    *value > most ? fmt::format(", at most {}", most) : ""),
                        fmt::format("{} {}", option, example)});
}

void check(const GemmOptions& options, std::vector<Problem>& problems) {
  check_ways(options, problems);
  demand_between(problems, "--rounds", options.rounds, 1, 1000, 7);
  demand_between(problems, "--trials", options.trials, 1, 1'000'000, 100);
  demand_between(problems, "--warmups", options.warmups, 0, 1'000'000, 50);
  demand_between(problems, "--seconds", options.seconds, 1, 1'000'000, 60);
  demand_between(problems, "--micro-batch", options.micro_batch, 1, most_size, 8);
  demand_between(problems, "--seq", options.positions, 1, most_size, 1024);
  demand_between(problems, "--tp", options.tensor, 1, 1024, 8);
  demand_between(problems, "--swiglu", options.swiglu, 1, most_size, 4096);
  demand_between(problems, "--tokens", options.tokens, 1, most_size, 256);
  if (options.dtype != "fp32" && options.dtype != "bf16")
    problems.push_back({fmt::format("--dtype {}: not a type of products", options.dtype), "choose fp32 or bf16"});
}

DType type_of(const GemmOptions& options) { return options.dtype == "bf16" ? DType::bf16 : DType::f32; }

// Products that are measured.
std::size_t rows_of(const std::vector<std::string>& models) {
  std::size_t rows = 0;
  for (const std::string& model : models)
    for (const lab::LayerShape& shape : lab::layer_shapes(model)) rows += (shape.forward ? 1U : 0U) + (shape.backward ? 2U : 0U);
  return rows;
}

void compare(const GemmOptions& options, Session& session) {
  lab::GemmBenchOptions bench{
      .rounds = static_cast<int>(options.rounds.value_or(7)), .isa = session.isa(), .type = type_of(options)};
  if (!options.shapes.empty()) bench.models = options.shapes;
  ProgressBar bar(stderr, "bench gemm", static_cast<double>(rows_of(bench.models)));
  double done = 0;
  const lab::GemmReport report = lab::bench_gemm(session.runtime(), bench, [&](const lab::GemmRow& row) {
    bar.update(++done, fmt::format("{} {}", row.model, row.shape.name));
  });
  bar.finish();
  fmt::print("{}\n", options.json ? report.json().dump() : report.table());
}

/// "A:B:C" or "A"; empty: the default.
std::vector<std::int64_t> sizes_from(std::string_view option, const std::string& text, std::vector<Problem>& problems) {
  constexpr std::int64_t first = 512, last = 2048, step = 512;
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    numbers.push_back(number_from<std::int64_t>(std::string_view(text).substr(at, end - at)).value_or(0));
    at = end + 1;
  }
  if (text.empty()) numbers = {first, last, step};
  if (numbers.size() == 1) numbers = {numbers[0], numbers[0], 1};
  const bool whole = std::ranges::all_of(numbers, [](std::int64_t number) { return number >= 1 && number <= most_size; });
  if (numbers.size() != 3 || !whole || numbers[0] > numbers[1]) {
    problems.push_back({fmt::format("{} {}: must be a size from 1 to {}, or from:to:step of such", option, text, most_size),
                        fmt::format("{} 512:2048:512", option)});
    return {};
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = numbers[0]; size <= numbers[1]; size += numbers[2]) sizes.push_back(size);
  return sizes;
}

lab::MamfOptions mamf_options(const GemmOptions& options, std::vector<Problem>& problems) {
  constexpr std::size_t most_shapes = 100'000;
  lab::MamfOptions finding{.m = sizes_from("--m", options.m, problems),
                           .n = sizes_from("--n", options.n, problems),
                           .k = sizes_from("--k", options.k, problems),
                           .type = type_of(options),
                           .warmups = static_cast<int>(options.warmups.value_or(50)),
                           .trials = static_cast<int>(options.trials.value_or(100)),
                           .seconds = static_cast<double>(options.seconds.value_or(60))};
  if (const std::size_t shapes = finding.m.size() * finding.n.size() * finding.k.size(); shapes > most_shapes)
    problems.push_back({fmt::format("--m, --n, --k: {} shapes are more than {}", shapes, most_shapes), "larger steps"});
  return finding;
}

void find_mamf(const GemmOptions& options, lab::MamfOptions finding, Session& session) {
  finding.isa = session.isa();
  const train::StopSignal signal;
  ProgressBar bar(stderr, "bench gemm --mamf", static_cast<double>(finding.m.size() * finding.n.size() * finding.k.size()));
  double done = 0;
  finding.stopped = [&] { return signal.received().has_value(); };
  finding.progress = [&](const lab::MamfRow& row) {
    bar.update(++done, fmt::format("{}x{}x{}: {:.4f} TFLOPS", row.m, row.n, row.k, 1e-12 * row.median()));
  };
  const lab::MamfReport report = lab::find_mamf(session.runtime(), finding);
  bar.finish();
  fmt::print("{}", options.json ? lab::to_json(report).dump() + "\n" : lab::to_text(report));
}

void search_swiglu(const GemmOptions& options, Session& session) {
  lab::SwigluOptions search{.hidden = *options.swiglu,
                            .tokens = options.tokens.value_or(256),
                            .rounds = static_cast<int>(options.rounds.value_or(3)),
                            .type = type_of(options),
                            .isa = session.isa()};
  ProgressBar bar(stderr, "bench gemm --swiglu",
                  static_cast<double>(lab::swiglu_widths(search.hidden).size()) * static_cast<double>(search.rounds));
  double done = 0;
  search.progress = [&](std::int64_t width) { bar.update(++done, fmt::format("{}", width)); };
  const lab::SwigluReport report = lab::search_swiglu(session.runtime(), search);
  bar.finish();
  fmt::print("{}", options.json ? lab::to_json(report).dump() + "\n" : lab::to_text(report));
}

struct AdviceCase {
  std::string model;
  planner::Machine machine;
  planner::ProductCase products;
};

AdviceCase advice_case(const GemmOptions& options) {
  const NamedModel named = named_model(options.advise, options.positions.value_or(0));
  AdviceCase advice{.model = named.name, .machine = named_machine(options.machine, 0), .products = {}};
  advice.products.model = named.model();
  if (advice.machine.units == 0)
    throw UserError(fmt::format("--machine {}: units = 0: it computes products without tiles and waves", options.machine),
                    "units = 108 in its file (A100) where it does; bench gemm --mamf measures shapes on this machine");
  advice.products.microbatch = {options.micro_batch.value_or(1), named.config.model.block_size};
  const auto& [samples, positions] = advice.products.microbatch;
  if (std::vector<Problem> problems =
          arch::check(advice.products.model, arch::StepSizes{.samples = samples, .positions = positions});
      !problems.empty())
    throw UserError(std::move(problems));
  advice.products.tensor = static_cast<int>(options.tensor.value_or(1));
  return advice;
}

void print_products(const AdviceCase& advice) {
  fmt::print("{:<14} {:>8} {:>24} {:>6}  {:<9} {:>9} {:>7} {:>6} {:>8} {:>8} {:>6}\n", "product", "calls", "m x k x n", "batch",
             "not 64's", "tile", "tiles", "waves", "in tiles", "in waves", "filled");
  for (const planner::ModelProduct& product : planner::forward_products(advice.products)) {
    const planner::Fill fill = planner::best_fill(product.m, product.n, product.batch, advice.machine.units);
    const std::string bad = product.misaligned();
    fmt::print("{:<14} {:>8} {:>24} {:>6}  {:<9} {:>9} {:>7} {:>6} {:>6.1f} % {:>6.1f} % {:>4.0f} %\n", product.name,
               product.calls, fmt::format("{} x {} x {}", product.m, product.k, product.n), product.batch,
               bad.empty() ? "-" : bad, fmt::format("{}x{}", fill.tile.rows, fill.tile.columns), fill.tiles,
               planner::waves(fill.tiles, advice.machine.units), 100 * fill.tile_efficiency, 100 * fill.wave_efficiency,
               100 * fill.total());
  }
}

void print_advice(const AdviceCase& advice) {
  const planner::ProductCase& of = advice.products;
  fmt::print("{} on {} ({} units): products of a forward pass of {} x {} tokens{}\n\n", advice.model, advice.machine.name,
             advice.machine.units, of.microbatch.samples, of.microbatch.positions,
             of.tensor == 1 ? "" : fmt::format(" on one of {} ranks a layer", of.tensor));
  print_products(advice);
  const std::vector<planner::ProductChange> changes = planner::product_changes(of, advice.machine);
  fmt::print("\n{}", changes.empty() ? "nothing to change\n" : "what to change, and how many times as fast all products are\n");
  bool aligns = false;
  for (const planner::ProductChange& change : changes) {
    aligns |= change.aligns;
    fmt::print("  {:<26} {:>6.3f} x{}  {}\n", change.setting, change.gain, change.aligns ? " +" : "  ", change.reason);
  }
  if (aligns)
    fmt::print(
        "+: and what whole 128 bytes (64 elements of bf16) are worth to tensor cores. Measured on an A100: a SwiGLU of 10922\n"
        "   reached 272.7 TFLOPS, one of 10944 398.4 (1.46 x), with the same tiles\n");
  fmt::print(
      "Gains are by tiles and waves, forward and backward, each alone. Attention counts as whole products (scores, values); "
      "tiled\n"
      "attention needs heads that are large enough, and no more. lockstep bench gemm measures on this machine.\n");
}

void print_advice_json(const AdviceCase& advice) {
  Json::Array products, changes;
  for (const planner::ModelProduct& product : planner::forward_products(advice.products)) {
    const planner::Fill fill = planner::best_fill(product.m, product.n, product.batch, advice.machine.units);
    products.push_back(Json::Object{{"name", product.name},
                                    {"calls", product.calls},
                                    {"m", product.m},
                                    {"k", product.k},
                                    {"n", product.n},
                                    {"batch", product.batch},
                                    {"misaligned", product.misaligned()},
                                    {"tiles", fill.tiles},
                                    {"waves", planner::waves(fill.tiles, advice.machine.units)},
                                    {"tile_efficiency", fill.tile_efficiency},
                                    {"wave_efficiency", fill.wave_efficiency}});
  }
  for (const planner::ProductChange& change : planner::product_changes(advice.products, advice.machine))
    changes.push_back(
        Json::Object{{"setting", change.setting}, {"reason", change.reason}, {"gain", change.gain}, {"aligns", change.aligns}});
  fmt::print("{}\n", Json(Json::Object{{"model", advice.model},
                                       {"machine", advice.machine.name},
                                       {"products", std::move(products)},
                                       {"changes", std::move(changes)}})
                         .dump());
}

}  // namespace

int bench_gemm(const Arguments& arguments) {
  GemmOptions options;
  if (!parse(arguments, options)) return 0;
  std::vector<Problem> problems;
  check(options, problems);
  lab::MamfOptions finding;
  if (options.mamf) finding = mamf_options(options, problems);
  if (!problems.empty()) throw UserError(std::move(problems));
  if (!options.advise.empty()) {
    const AdviceCase advice = advice_case(options);
    options.json ? print_advice_json(advice) : print_advice(advice);
    return 0;
  }
  run_on_ranks({.threads = options.threads, .isa = ops::isa_from_name(options.isa)}, [&](Session& session) {
    if (options.mamf) return find_mamf(options, finding, session);
    if (options.swiglu) return search_swiglu(options, session);
    compare(options, session);
  });
  return 0;
}

}  // namespace lockstep::app
