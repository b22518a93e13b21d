// `lockstep plan search MODEL MACHINE`: the fastest layout, and why the others lose.

#include "planner/search.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/command_line.h"
#include "app/folder/output_file.h"
#include "app/plan/machine_file.h"
#include "app/plan/named_model.h"
#include "app/plan/questions.h"
#include "app/plan/winner.h"
#include "arch/flops.h"
#include "arch/step_sizes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

using planner::Found;

constexpr std::int64_t most_count = 1 << 24;

struct Options {
  std::string machine, model, out, dtype = "bf16";
  std::int64_t nodes = 0, positions = 0, batch = 1024, top = 10;
  double tokens = 0, price = 0;
  bool json = false;
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line(
      "plan search",
      "The fastest layouts of a model on a machine: every legal one is looked at, by formulas; of the best, memory is "
      "what the engine's own declarations say, and pipelines are simulated. Then why every other kind loses.");
  line.positional("MODEL", options.model, "preset, recipe.toml, published model's folder or config.json", true, {"--model"});
  line.positional("MACHINE", options.machine, "a100, h100, h200, b200, or machine.toml", true, {"--machine"});
  line.option("--nodes", options.nodes, "N", "of the machine; 0: as it says");
  line.option("--seq", options.positions, "T", "positions of a sample; 0: as many as the model's context has");
  line.option("--global-batch", options.batch, "B", "samples of a step, over all ranks");
  line.option("--dtype", options.dtype, "TYPE", "of weights and activations: bf16 or fp32");
  line.option("--top", options.top, "N", "layouts that are shown");
  line.option("--out", options.out, "F.toml", "the fastest as a recipe for lockstep train --config");
  line.option("--tokens", options.tokens, "N", "days for so many tokens; 0: left out");
  line.option("--price", options.price, "P", "of a device for an hour: what these days cost");
  line.flag("--json", options.json, "one line of JSON");
  line.note("a machine's file has these keys:\n" + machine_keys());
  line.note("example:\n  lockstep plan search gpt3_175B a100 --nodes 128 --global-batch 1536 --tokens 300e9");
  return line.parse(arguments);
}

/// All that is wrong with what was asked for; else the question.
struct Asked {
  planner::SearchQuestion question;
  NamedModel model;
};
Asked asked(const Options& options) {
  std::vector<Problem> problems;
  const auto collect = [&](const auto& read) {
    try {
      read();
    } catch (const UserError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  };
  const auto count = [&](std::string_view name, std::int64_t value, std::int64_t least, std::string_view example) {
    if (value < least || value > most_count)
      problems.push_back(
          {fmt::format("{} {}: must be from {} to {}", name, value, least, most_count), fmt::format("{} {}", name, example)});
  };
  count("--nodes", options.nodes, 0, "16");
  count("--seq", options.positions, 0, "4096");
  count("--global-batch", options.batch, 1, "1024");
  count("--top", options.top, 1, "10");
  if (!(options.tokens >= 0 && options.tokens < 1e30))
    problems.push_back({fmt::format("--tokens {}: must be 0 or above", options.tokens), "--tokens 300e9"});
  if (!(options.price >= 0 && options.price < 1e30))
    problems.push_back({fmt::format("--price {}: must be 0 or above", options.price), "--price 2.5"});
  if (options.dtype != "bf16" && options.dtype != "fp32")
    problems.push_back({fmt::format("--dtype {}: must be bf16 or fp32", options.dtype), "--dtype bf16"});
  planner::Machine machine;
  NamedModel model;
  collect([&] { machine = named_machine(options.machine, std::max<std::int64_t>(0, options.nodes)); });
  collect([&] {
    model = named_model(options.model, std::max<std::int64_t>(0, options.positions));
    for (Problem& problem : arch::check(model.model(), arch::StepSizes{.positions = model.config.model.block_size}))
      problems.push_back(std::move(problem));
  });
  if (!problems.empty()) throw UserError(std::move(problems));
  planner::Work work(model.model(), model.config.model.block_size, machine,
                     options.dtype == "fp32" ? planner::own_f32_system : planner::own_system);
  return {{.work = std::move(work), .global_batch = options.batch}, std::move(model)};
}

[[noreturn]] void refuse(const planner::SearchQuestion& question, const planner::SearchResult& result) {
  const planner::Machine& machine = question.work.machine;
  if (result.legal == 0) {
    const std::int64_t batch = round_up(question.global_batch, machine.ranks());
    throw UserError(
        fmt::format("--global-batch {}: no layout of {} ranks divides it: one of dp, tp, cp and pp has to, and tensor ranks "
                    "lie on one node, and a stage has a layer",
                    question.global_batch, machine.ranks()),
        batch <= most_count ? fmt::format("--global-batch {}", batch) : "fewer nodes (--nodes)");
  }
  throw UserError(
      fmt::format("no layout fits: memory is nearest, {}",
                  result.needed.empty()
                      ? fmt::format("{} a device", format_bytes(static_cast<std::uint64_t>(machine.usable_memory())))
                      : "the layout that takes least needs " + result.needed),
      fmt::format("more nodes (--nodes {}), shorter samples (--seq), or host memory and disks to offload to", 2 * machine.nodes));
}

/// What of a second of a step the devices do for the model, and in all.
struct Use {
  double tflops, mfu, hfu;
};
Use use_of(const planner::SearchQuestion& question, const Found& found) {
  const planner::Work& work = question.work;
  const double tokens = static_cast<double>(question.global_batch * work.positions);
  const double each = 1 / (found.time.total() * static_cast<double>(work.machine.ranks()));
  const double model = arch::training_flops_per_token(work.model, work.positions) * tokens * each;
  // What is made again is forward's third, as far as time says.
  const double again = found.time.compute > 0 ? found.time.again / found.time.compute : 0;
  return {model / 1e12, model / work.machine.peak_flops, model * (1 + again) / work.machine.peak_flops};
}

double waiting_for_ranks(const planner::StepTime& time) { return time.tensor + time.messages + time.gather + time.replicas; }
double waiting(const planner::StepTime& time) { return waiting_for_ranks(time) + time.activations; }

/// The settings, without their groups.
std::string layout_text(const planner::Work& work, const Found& found) {
  std::string text;
  for (const std::string& setting : settings_of(work, found.candidate)) {
    if (!setting.starts_with("train.")) text += setting.substr(setting.find('.') + 1) + " ";
  }
  text.pop_back();
  return text;
}

void print_best(const planner::SearchQuestion& question, const planner::SearchResult& result) {
  fmt::print("{:>3} {:>9} {:>6} {:>6} {:>7} {:>10} {:>8} {:>8}  {}\n", "", "step", "MFU", "HFU", "TFLOPS", "memory", "waiting",
             "bubble", "layout");
  int number = 0;
  for (const Found& found : result.best) {
    const Use use = use_of(question, found);
    const double total = found.time.total();
    fmt::print("{:>3} {:>9} {:>4.1f} % {:>4.1f} % {:>7} {:>10} {:>6.1f} % {:>6.1f} %  {}\n", ++number, format_seconds(total),
               100 * use.mfu, 100 * use.hfu, fmt::format("{:.{}f}", use.tflops, use.tflops < 9.95 ? 2 : 0),
               format_bytes(static_cast<std::uint64_t>(found.memory.bytes)), 100 * waiting(found.time) / total,
               100 * found.time.bubble / total, layout_text(question.work, found));
  }
}

void print_families(const planner::SearchResult& result) {
  fmt::print("\nthe best of each kind, and why it is not the fastest:\n");
  for (const planner::Family& family : result.families) {
    fmt::print("  {:<24} {:>9}  {}\n", family.name, family.best ? format_seconds(family.best->time.total()) : "-",
               family.reason.empty() ? "the fastest" : family.reason);
  }
}

void print_verdict(const Found& winner) {
  const double share = waiting_for_ranks(winner.time) / winner.time.total();
  constexpr double much = 0.2;
  if (share < much) return;
  fmt::print(
      "\nnetwork-bound: ranks wait for each other {:.0f} % of the time\n"
      "  does not help: faster kernels, better shapes of products, less recomputation, a faster data loader, faster devices\n"
      "  helps: a larger --global-batch or longer samples, a faster network, more memory a device\n",
      100 * share);
}

void print_duration(const planner::SearchQuestion& question, const Options& options, const Found& winner) {
  if (options.tokens <= 0) return;
  const double steps = options.tokens / static_cast<double>(question.global_batch * question.work.positions);
  const double hours = steps * winner.time.total() / 3600;
  fmt::print("\n{} tokens: {:.0f} steps, {:.1f} days", format_si(options.tokens), steps, hours / 24);
  if (options.price > 0)
    fmt::print(", {} at {:g} for a device's hour",
               format_si(hours * static_cast<double>(question.work.machine.ranks()) * options.price), options.price);
  fmt::print("\n");
}

Json json_of(const planner::SearchQuestion& question, const Found& found) {
  const planner::Work& work = question.work;
  const Use use = use_of(question, found);
  Json::Array words;
  for (const std::string& setting : settings_of(work, found.candidate)) words.emplace_back(setting);
  const planner::StepTime& time = found.time;
  return Json::Object{{"step_seconds", time.total()},
                      {"ranked_seconds", planner::ranked_seconds(found)},
                      {"compute", time.compute},
                      {"again", time.again},
                      {"tensor", time.tensor},
                      {"messages", time.messages},
                      {"bubble", time.bubble},
                      {"gather", time.gather},
                      {"activations", time.activations},
                      {"replicas", time.replicas},
                      {"optimizer", time.optimizer},
                      {"mfu", use.mfu},
                      {"hfu", use.hfu},
                      {"tflops", use.tflops},
                      {"device_bytes", found.memory.bytes},
                      {"host_bytes", found.memory.host_bytes},
                      {"disk_bytes", found.memory.disk_bytes},
                      {"settings", Json(std::move(words))}};
}

void print_json(const Asked& asked, const planner::SearchResult& result, const std::string& recipe) {
  Json::Array best, families;
  for (const Found& found : result.best) best.emplace_back(json_of(asked.question, found));
  for (const planner::Family& family : result.families) {
    families.emplace_back(Json::Object{{"name", family.name},
                                       {"best", family.best ? json_of(asked.question, *family.best) : Json()},
                                       {"reason", family.reason}});
  }
  fmt::print("{}\n",
             Json(Json::Object{{"machine", asked.question.work.machine.name},
                               {"ranks", asked.question.work.machine.ranks()},
                               {"model", asked.model.name},
                               {"layouts", result.legal},
                               {"best", Json(std::move(best))},
                               {"families", Json(std::move(families))},
                               {"command", command_of(asked.model, asked.question.work, result.best.front().candidate, recipe)}})
                 .dump());
}

}  // namespace

int plan_search(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  demand_output("--out", options.out, is_own_recipe);
  const Asked asked = app::asked(options);
  const planner::Work& work = asked.question.work;
  const planner::SearchResult result = planner::search(asked.question, static_cast<int>(options.top));
  if (result.best.empty()) refuse(asked.question, result);
  const Found& winner = result.best.front();
  if (!options.out.empty()) io::replace_file(options.out, recipe_of(asked.model, work, winner.candidate));
  if (options.json) {
    print_json(asked, result, options.out);
    return 0;
  }
  fmt::print("{} ({} parameters) on {}: {} x {} devices; {} samples of {} tokens a step, {}\n{} layouts looked at\n\n",
             visible(asked.model.name), format_si(work.parameters), visible(work.machine.name), work.machine.nodes,
             work.machine.devices, format_count(asked.question.global_batch), format_count(work.positions), options.dtype,
             format_count(result.legal));
  print_best(asked.question, result);
  print_families(result);
  print_verdict(winner);
  print_duration(asked.question, options, winner);
  fmt::print("\n{}\n", command_of(asked.model, work, winner.candidate, options.out));
  return 0;
}

}  // namespace lockstep::app
