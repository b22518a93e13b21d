// `lockstep plan published`: what papers measured beside what the planner says.

#include "planner/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "app/folder/answer_line.h"
#include "app/plan/questions.h"
#include "app/plan/recipe_layout.h"
#include "io/file.h"
#include "planner/published_rows.h"

namespace lockstep::app {
namespace {

constexpr double kClose = 0.1;

std::string chosen(const planner::Prediction& one) {
  std::vector<std::string> words;
  if (one.figure->samples == 0) words.push_back(fmt::format("b {}", one.candidate.samples));
  if (one.figure->any_chunks && one.candidate.plan.pp > 1) words.push_back(fmt::format("v {}", one.candidate.plan.chunks));
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// A file of rows, a line for each system and kind of device.
Answer held_against(const std::string& file, const planner::System* system) {
  const planner::PublishedFile read = planner::published_rows(io::read_document(file), file, system);
  std::map<std::pair<std::string, std::string>, std::vector<const planner::PublishedRow*>> kinds;
  for (const planner::PublishedRow& row : read.rows) kinds[{std::string(row.system.name), row.gpu}].push_back(&row);
  Table table({{"system", "system"},
               {"gpu", "device"},
               {"rows", "rows"},
               {"within_10", "within 10 %", "{:.0f} %", 100},
               {"within_20", "20 %", "{:.0f} %", 100},
               {"median", "median", "{:+.1f} %", 100},
               {"constant_10", "one HFU for all: 10 %", "{:.0f} %", 100},
               {"constant_20", "20 %", "{:.0f} %", 100}});
  for (const auto& [kind, measured] : kinds) {
    std::vector<double> errors;
    for (const planner::PublishedRow* row : measured) errors.push_back(row->error());
    const planner::Score own = planner::score_of(std::move(errors)), constant = planner::constant_score(measured);
    const auto part = [&](std::size_t count) { return static_cast<double>(count) / static_cast<double>(own.rows); };
    table.row({kind.first, kind.second, static_cast<std::int64_t>(own.rows), part(own.within_10), part(own.within_20), own.median,
               part(constant.within_10), part(constant.within_20)});
  }
  Answer answer;
  answer.table("kinds", table);
  Table rows({{"source"}, {"model"}, {"gpu"}, {"devices"}, {"positions"}, {"layout"}, {"measured"}, {"predicted"}, {"faster"}});
  Table memory({{"model", "memory of"},
                {"devices", "devices"},
                {"measured_bytes", "measured", "{:.1f} GiB", 0x1p-30},
                {"predicted_bytes", "predicted", "{:.1f} GiB", 0x1p-30},
                {"more", "more", "{:+.1f} %", 100}});
  for (const planner::PublishedRow& row : read.rows) {
    rows.row({row.source, row.name, row.gpu, row.machine.ranks(), row.positions, layout::describe(row.candidate.plan), row.tokens,
              row.predicted_tokens(row.system), row.error()});
    if (row.memory > 0) {
      const double predicted = row.predicted_memory();
      memory.row({row.name, row.machine.ranks(), row.memory, predicted, predicted / row.memory - 1});
    }
  }
  answer.rows("rows", rows);
  if (!memory.empty()) {
    answer.say("\n");
    answer.table("memory", memory);
  }
  const planner::Regret regret = regret_of(read.rows);
  if (regret.choices > 0) {
    answer.say(
        fmt::format("\nof {} choices among layouts of one model on one machine, {} put the fastest first; at the most that "
                    "one is {:.1f} % slower\n",
                    regret.choices, regret.best, 100 * regret.worst));
  }
  if (read.left_out > 0) answer.say(fmt::format("{} rows of fp8 or of offloaded activations are left out\n", read.left_out));
  answer.facts({{"choices", static_cast<std::int64_t>(regret.choices)},
                {"best_choices", static_cast<std::int64_t>(regret.best)},
                {"worst_regret", regret.worst},
                {"left_out", read.left_out}});
  return answer;
}

}  // namespace

int plan_published(const Arguments& arguments) {
  std::string file, system;
  AnswerLine line(
      "plan published",
      "30 throughputs that papers measured on A100s (arXiv 2104.04473, tables 1 and 2; 2205.05198, table 5) beside the "
      "planner's. One share of the products' peak serves all of them, fitted to the 7.5 billion row. So does one share of "
      "the links, fitted to the ZeRO-3 row of 1,536 devices. TFLOPS of a device (recomputed passes included), or seconds "
      "of a step. Columns b and v: micro-batch and virtual stages that were not published, as they are best.");
  line.positional("FILE.csv", file, "rows that were measured, in place of these 30: a line for each system and device", false);
  std::vector<std::string> names = system_names();
  names.insert(names.begin(), "");
  line.choice("--system", system, names,
              "of all rows of the file; without it their source says: torchtitan, megatron, else fsdp");
  line.ask_csv();
  line.note(
      "columns of FILE.csv, in any order: gpu gpus n_layer n_head n_embd vocab seq micro_batch (or local_batch)\n"
      "tokens_per_s_per_gpu; and source model gpus_per_node grad_accum (or global_batch) n_kv_head ffn_width tp\n"
      "sharding mixed_precision recompute compile async_tp dtype activation_offload memory_gib");
  if (!line.read(arguments)) return 0;
  line.demand(system.empty() || !file.empty(),
              fmt::format("--system {}: the papers' rows are Megatron's and DeepSpeed's", system),
              "plan published FILE.csv --system " + system);
  line.check();
  if (!file.empty()) {
    line.print(held_against(file, planner::find_system(system)));
    return 0;
  }
  const planner::Machine& machine = *planner::find_machine("a100");
  Answer answer;
  answer.say(fmt::format("products reach {:.1f} % of their peak, collectives {:.1f} % of their links\n\n",
                         100 * machine.product_share, 100 * machine.link_share));
  Table table({{"figure"},
               {"devices", "devices"},
               {"measured", "measured"},
               {"predicted", "predicted"},
               {"faster", "faster", "{:+.1f} %", 100},
               {"not_published", "not published"}});
  int within = 0;
  for (const planner::Prediction& one : predict_published(machine)) {
    within += std::abs(one.error()) <= kClose ? 1 : 0;
    const auto figure = [&](double value) {
      return Cell(value, fmt::format("{:.4g}{}", value, one.figure->seconds > 0 ? " s" : ""));
    };
    table.row(
        {one.figure->name, one.figure->plan.ranks(), figure(one.published), figure(one.predicted), one.error(), chosen(one)});
  }
  answer.table("figures", table);
  const planner::SingleRate single = planner::best_single_rate(kClose);
  answer.say(fmt::format("\n{} of {} are within {:.0f} %; of one rate for all of them, {:g} TFLOPS, {} would be\n", within,
                         planner::published_figures().size(), 100 * kClose, single.tflops, single.within));
  answer.facts({{"within", within}, {"single_tflops", single.tflops}, {"within_of_single", single.within}});
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
