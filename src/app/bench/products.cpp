// `lockstep bench products`: which products of a model fill a machine's units badly.

#include <fmt/format.h>

#include "app/bench/bench.h"
#include "app/plan/machine_file.h"
#include "app/plan/named_model.h"
#include "arch/step_sizes.h"
#include "planner/product_advice.h"

namespace lockstep::app {
namespace {

struct ProductsAsked {
  std::string model, machine;
  std::int64_t samples = 1, positions = 0;
  int tensor = 1;
};

struct AdviceCase {
  std::string model, note;
  planner::Machine machine;
  planner::ProductCase products;
};

AdviceCase advice_case(const ProductsAsked& asked) {
  const NamedModel named = named_model(asked.model, asked.positions);
  AdviceCase advice{.model = named.name, .note = named.note, .machine = named_machine(asked.machine, 0), .products = {}};
  advice.products.model = named.model();
  if (advice.machine.units == 0)
    throw UserError(fmt::format("--machine {}: units = 0: it computes products without tiles and waves", asked.machine),
                    "units = 108 in its file (A100) where it does; bench mamf measures shapes on this machine");
  advice.products.microbatch = {asked.samples, named.config.model.block_size};
  const auto& [samples, positions] = advice.products.microbatch;
  if (std::vector<Problem> problems =
          arch::check(advice.products.model, arch::StepSizes{.samples = samples, .positions = positions});
      !problems.empty())
    throw UserError(std::move(problems));
  advice.products.tensor = asked.tensor;
  return advice;
}

Table product_table(const AdviceCase& advice) {
  Table table({{"name", "product"},
               {"calls", "calls"},
               {"m", "", ""},
               {"k", "", ""},
               {"n", "", ""},
               {"", "m x k x n"},
               {"batch", "batch"},
               {"misaligned", "not 64's"},
               {"", "tile"},
               {"tiles", "tiles"},
               {"waves", "waves"},
               {"tile_efficiency", "in tiles", "{:.1f} %", 100},
               {"wave_efficiency", "in waves", "{:.1f} %", 100},
               {"", "filled", "{:.0f} %", 100}});
  for (const planner::ModelProduct& product : planner::forward_products(advice.products)) {
    const planner::Fill fill = planner::best_fill(product.m, product.n, product.batch, advice.machine.units);
    const std::string bad = product.misaligned();
    table.row({product.name, product.calls, product.m, product.k, product.n,
               fmt::format("{} x {} x {}", product.m, product.k, product.n), product.batch, Cell(bad, bad.empty() ? "-" : bad),
               fmt::format("{}x{}", fill.tile.rows, fill.tile.columns), fill.tiles,
               planner::waves(fill.tiles, advice.machine.units), fill.tile_efficiency, fill.wave_efficiency, fill.total()});
  }
  return table;
}

Answer advise(const AdviceCase& advice) {
  const planner::ProductCase& of = advice.products;
  Answer answer;
  answer.say(advice.note);
  answer.facts({{"model", advice.model}, {"vocabulary", of.model.vocabulary}, {"machine", advice.machine.name}});
  answer.say(fmt::format("{} on {} ({} units): products of a forward pass of {} x {} tokens{}\n\n", advice.model,
                         advice.machine.name, advice.machine.units, of.microbatch.samples, of.microbatch.positions,
                         of.tensor == 1 ? "" : fmt::format(" on one of {} ranks a layer", of.tensor)));
  answer.table("products", product_table(advice));
  Table table({{"setting"}, {"reason", "", ""}, {"gain", "", "{:.3f} x"}, {"aligns", "", ""}, {""}, {""}});
  bool any = false, aligns = false;
  for (const planner::ProductChange& change : planner::product_changes(of, advice.machine)) {
    table.row({"  " + change.setting, change.reason, change.gain, change.aligns, change.aligns ? "+" : "", change.reason});
    any = true;
    aligns |= change.aligns;
  }
  answer.say(any ? "\nwhat to change, and how many times as fast all products are\n" : "\nnothing to change\n");
  answer.table("changes", table);
  if (aligns)
    answer.say(
        "+: and what whole 128 bytes (64 elements of bf16) are worth to tensor cores. Measured on an A100: a SwiGLU of 10922\n"
        "   reached 272.7 TFLOPS, one of 10944 398.4 (1.46 x), with the same tiles\n");
  answer.say(
      "Gains are by tiles and waves, forward and backward, each alone. Attention counts as whole products (scores, values); "
      "tiled\nattention needs heads that are large enough, and no more. lockstep bench gemm measures on this machine.\n");
  return answer;
}

std::optional<Answer> run_products(BenchLine& line) {
  constexpr std::int64_t most_size = 1 << 20;
  ProductsAsked asked;
  line.option("--model", asked.model, "MODEL", "a model as plan search knows it");
  line.option("--machine", asked.machine, "NAME|FILE", machine_names());
  line.count("--micro-batch", asked.samples, "N", "samples", 1, most_size);
  line.count("--seq", asked.positions, "T", "positions of a sample; 0: the model's", 0, most_size);
  line.count("--tp", asked.tensor, "N", "ranks that divide each layer", 1, 1024);
  if (!line.read()) return {};
  line.demand(!asked.model.empty(), "--model MODEL is missing", "--model gpt2");
  line.check();
  return advise(advice_case(asked));
}

}  // namespace

Bench products_bench() {
  return {"products", "which products of a model fill a machine badly, and a remedy",
          "Says of every product of a model's forward pass how well it fills a machine's tiles and waves, and which settings "
          "fill them better. It computes; nothing runs.",
          "example:\n  lockstep bench products --model gpt2_xl --machine a100 --micro-batch 8", run_products};
}

}  // namespace lockstep::app
