// `lockstep plan published`: what papers measured beside what the planner says.

#include "planner/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/folder/answer_line.h"
#include "app/plan/questions.h"

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

}  // namespace

int plan_published(const Arguments& arguments) {
  AnswerLine line(
      "plan published",
      "30 throughputs that papers measured on A100s (arXiv 2104.04473, tables 1 and 2; 2205.05198, table 5) beside the "
      "planner's. One share of the products' peak, fitted to the 7.5 billion row, and one share of the links, fitted to "
      "the ZeRO-3 row of 1,536 devices, serve all of them. TFLOPS of a device (recomputed passes included), or seconds "
      "of a step; b and v: micro-batch and virtual stages that were not published, as they are best.");
  line.ask_csv();
  if (!line.read(arguments)) return 0;
  line.check();
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
