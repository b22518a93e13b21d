// `lockstep plan search MODEL MACHINE`: the fastest layout, and why the others lose.

#include "planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "app/folder/answer_line.h"
#include "app/plan/foreign/exported.h"
#include "app/plan/machine_file.h"
#include "app/plan/named_model.h"
#include "app/plan/questions.h"
#include "app/plan/recipe_layout.h"
#include "app/plan/search/calibration.h"
#include "app/plan/search/found_table.h"
#include "app/plan/search/measured_layouts.h"
#include "app/plan/search/winner.h"
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
  std::string machine, model, dtype = "bf16", system{planner::own_system.name}, calibrate;
  std::optional<std::int64_t> gpus;
  std::int64_t nodes = 0, positions = 0, batch = 1024;
  int top = 10, measure = 0;
  double tokens = 0, price = 0;
};

void declare(AnswerLine& line, Options& options) {
  line.positional("MODEL", options.model, "preset, recipe.toml, folder of a run or of a published model, or config.json", true,
                  {"--model"});
  line.positional("MACHINE", options.machine, machine_names(), true, {"--machine"});
  line.count("--nodes", options.nodes, "N", "of the machine; 0: as it says", 0, most_count);
  line.option("--gpus", options.gpus, "N", "in all, in place of --nodes: a part of a node, or whole ones", most_count);
  line.count("--seq", options.positions, "T", "positions of a sample; 0: as many as the model's context has", 0, most_count);
  line.count("--global-batch", options.batch, "B", "samples of a step, over all ranks", 1, most_count);
  line.choice("--dtype", options.dtype, {"bf16", "fp32"}, "of weights and activations");
  line.choice("--system", options.system, system_names(), "whose layouts, kernels, overlap and memory");
  line.count("--top", options.top, "N", "layouts that are shown", 1, most_count);
  line.count("--measure", options.measure, "K",
             "train the best K for a few steps on this machine, which MACHINE's file describes, and say which is fastest", 0,
             most_count);
  line.option("--calibrate", options.calibrate, "RUN|LINE",
              "a run of this machine, or tokens a second of a layout of this model (\"tp=2,dp=4: 12000\"): its rates follow");
  line.ask_out("F.toml", "the fastest as a recipe for lockstep train --config; for another --system its arguments or JSON",
               [](std::string_view head) { return is_own_recipe(head) || is_exported(head); });
  line.option("--tokens", options.tokens, "N", "days for so many tokens; 0: left out");
  line.option("--price", options.price, "P", "of a device for an hour: what these days cost");
  line.ask_csv();
  line.table("a machine's file has these keys", machine_keys());
  line.note(
      "examples:\n"
      "  lockstep plan search gpt3_175B a100 --nodes 128 --global-batch 1536 --tokens 300e9\n"
      "  lockstep plan search --model shakespeare --machine here.toml --global-batch 64 --measure 3");
}

/// All that is wrong with what was asked for; else the question.
struct Asked {
  planner::SearchQuestion question;
  NamedModel model;
};
Asked asked(const Options& options, AnswerLine& line) {
  const auto demand_amount = [&](std::string_view name, double value, std::string_view example) {
    line.demand(value >= 0 && value < 1e30, fmt::format("{} {}: must be 0 or above", name, value),
                fmt::format("{} {}", name, example));
  };
  demand_amount("--tokens", options.tokens, "300e9");
  demand_amount("--price", options.price, "2.5");
  planner::Machine machine;
  NamedModel model;
  line.collect([&] {
    machine = named_machine(options.machine, std::max<std::int64_t>(0, options.nodes));
    machine = with_devices(std::move(machine), options.gpus);
  });
  if (options.nodes > 0 && options.gpus) {
    line.demand(false, fmt::format("--nodes {} and --gpus {}: two numbers of devices", options.nodes, *options.gpus),
                "one of them");
  }
  line.collect([&] {
    model = named_model(options.model, std::max<std::int64_t>(0, options.positions));
    for (Problem& problem : arch::check(model.model(), arch::StepSizes{.positions = model.config.model.block_size}))
      line.problems().push_back(std::move(problem));
  });
  line.demand(
      options.calibrate.empty() || options.calibrate.find(':') != std::string::npos || options.system == planner::own_system.name,
      fmt::format("--calibrate {}: a run of this program tells nothing of {}", options.calibrate, options.system),
      "tokens a second of one of its layouts: --calibrate \"tp=2,dp=4: 12000\"");
  if (options.measure > 0) {
    line.demand(planner::find_machine(options.machine) == nullptr && machine.nodes == 1,
                fmt::format("--measure {}: layouts are trained on this host, which {} does not describe", options.measure,
                            options.machine),
                "lockstep doctor --machine-file here.toml describes it: --machine here.toml");
    line.demand(
        options.system == planner::own_system.name,
        fmt::format("--measure {}: this program trains its own layouts, not those of {}", options.measure, options.system),
        "leave --system out");
  }
  line.check();
  const planner::System& system = *planner::find_system(options.system);
  planner::Work work(model.model(), model.config.model.block_size, machine,
                     options.dtype == "fp32" ? planner::in_f32(system) : system);
  return {{.work = std::move(work), .global_batch = options.batch}, std::move(model)};
}

[[noreturn]] void refuse(const planner::SearchQuestion& question, const planner::SearchResult& result) {
  const planner::Machine& machine = question.work.machine;
  if (result.legal == 0) {
    const std::int64_t batch = round_up(question.global_batch, machine.ranks());
    throw UserError(fmt::format("--global-batch {}: no layout of {} ranks divides it. One of dp, tp, cp and pp has to; tensor "
                                "ranks lie on one node, and a stage has a layer",
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

Table families_of(const planner::SearchQuestion& question, const planner::SearchResult& result) {
  Table table({{"name"}, {"best"}, {"reason"}});
  for (const planner::Family& family : result.families) {
    table.row({family.name,
               family.best ? Cell(table_of(question, {*family.best}).rows().front(), format_seconds(family.best->time.total()))
                           : Cell(nullptr),
               {family.reason, family.reason.empty() ? "the fastest" : family.reason}});
  }
  return table;
}

void say_verdict(const Found& winner, Answer& answer) {
  const double share = waiting_for_ranks(winner.time) / winner.time.total();
  constexpr double much = 0.2;
  if (share < much) return;
  answer.say(fmt::format(
      "\nnetwork-bound: ranks wait for each other {:.0f} % of the time\n"
      "  does not help: faster kernels, better shapes of products, less recomputation, a faster data loader, faster devices\n"
      "  helps: a larger --global-batch or longer samples, a faster network, more memory a device\n",
      100 * share));
}

/// Trains the best `count`, and says which is fastest: its place among them.
std::size_t measure(const NamedModel& model, const planner::Work& work, const std::vector<Found>& best, int count,
                    Answer& answer) {
  std::vector<RunConfig> recipes;
  for (const Found& found : best) {
    if (std::ssize(recipes) < count) recipes.push_back(recipe_of(model, work, found.candidate));
  }
  const std::vector<double> seconds = measured_steps(recipes, work.machine.ranks(), model.model().vocabulary);
  const auto fastest = static_cast<std::size_t>(std::ranges::min_element(seconds) - seconds.begin());
  Table table({{"rank", ""},
               {"measured_seconds", "measured"},
               {"predicted_seconds", "predicted"},
               {"error", "error", "{:+.1f} %", 100},
               {""},
               {"", "layout"}});
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const double predicted = best[i].time.total();
    table.row({i + 1,
               {seconds[i], format_seconds(seconds[i])},
               {predicted, format_seconds(predicted)},
               predicted / seconds[i] - 1,
               i == fastest ? "fastest" : fmt::format("{:.2f} x", seconds[i] / seconds[fastest]),
               layout_text(settings_of(work, best[i].candidate))});
  }
  answer.say(fmt::format("\ntrained for a few steps here: number {} is the fastest\n", fastest + 1));
  answer.table("measured", table);
  return fastest;
}

}  // namespace

int plan_search(const Arguments& arguments) {
  Options options;
  AnswerLine line(
      "plan search",
      "The fastest layouts of a model on a machine. Every legal one is looked at, by formulas. The best ones' memory is what the "
      "engine's own declarations say, and their pipelines are simulated. Then why every other kind loses.");
  declare(line, options);
  if (!line.read(arguments)) return 0;
  auto [question, model] = asked(options, line);
  planner::Work& work = question.work;
  Answer answer;
  if (!options.calibrate.empty())
    work.machine = planner::scaled(work.machine, calibrated(options.calibrate, model, question, options.machine, answer));
  const planner::SearchResult result = planner::search(question, std::max(options.top, options.measure));
  if (result.best.empty()) refuse(question, result);
  const Found& winner = result.best.front();
  const bool own = is_own(work.system);
  answer.say(fmt::format("{} {}, {}\n{} layouts looked at\n\n", visible(model.name), asked_text(question), options.dtype,
                         format_count(result.legal)));
  answer.say(model.note);
  answer.say(caveat(work));
  answer.facts({{"machine", work.machine.name},
                {"ranks", work.machine.ranks()},
                {"model", model.name},
                {"vocabulary", work.model.vocabulary},
                {"layouts", result.legal}});
  answer.table("best", table_of(question, result.best));
  answer.say("\nthe best of each kind, and why it is not the fastest:\n");
  answer.table("families", families_of(question, result));
  say_verdict(winner, answer);
  say_duration(question, options.tokens, options.price, winner, answer);
  const Found& run = options.measure > 0 ? result.best[measure(model, work, result.best, options.measure, answer)] : winner;
  if (!line.out().empty()) {
    io::replace_file(line.out(), own ? to_toml(recipe_of(model, work, run.candidate))
                                     : exported(model, work, run.candidate, question.global_batch));
  }
  const std::string command = own ? command_of(model, work, run.candidate, line.out()) : "";
  if (own && run.candidate.plan.reduce == layout::ReduceEvery::microbatch) {
    answer.say(
        "\nparallel.reduce=microbatch cuts gradients in every micro-batch: they are added in another order, and what the run "
        "learns has other bits\n");
  }
  if (own) answer.say(fmt::format("\n{}\n", command));
  answer.fact("command", command);
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
